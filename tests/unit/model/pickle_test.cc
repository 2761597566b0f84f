// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/pickle.h"

#include <filesystem>

#include "exeunt/model/torch_file.h"
#include "tests/fixtures/repeated.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/pickle_builder.h"

namespace exeunt {
namespace {

using pickled::call, pickled::dict, pickled::kStart, pickled::name, pickled::number, pickled::pickle, pickled::tensor,
    pickled::text, pickled::tuple;
using std::literals::string_literals::operator""s;
using testing::HasSubstr;
using Kind = PickleValue::Kind;

TEST(Pickle, ReadsEveryKindOfValue) {
  const std::string bytes =
      pickle(dict({text("größe"), number(-5), text("b"), "\x88", text("c"), "N", text("d"), "G" + std::string(8, '\0'),
                   text("e"), "U\2hi", text("f"), "](K\1M\2\1J\xfe\xff\xff\xff\x8a\0e"s, text("g"), "K\1\x85",
                   text("h"), name("torch", "float32"), text("i"), call(name("torch", "Size"), {"K\2K\3\x86"})}));
  const std::string longer = bytes + "more";
  const Pickle read = parse_pickle(bytes_of(longer), "f");
  EXPECT_EQ(read.size, bytes.size());
  const PickleValue& top = read.top();
  ASSERT_EQ(top.kind, Kind::dict);
  ASSERT_EQ(top.items.size(), 18U);
  const auto at = [&](size_t i) -> const PickleValue& { return read.at(top.items[2 * i + 1]); };
  EXPECT_EQ(read.at(top.items[0]).text, "größe");
  EXPECT_EQ(at(0).integer, -5);
  EXPECT_EQ(at(1).kind, Kind::boolean);
  EXPECT_EQ(at(1).integer, 1);
  EXPECT_EQ(at(2).kind, Kind::none);
  EXPECT_EQ(at(3).kind, Kind::real);
  EXPECT_EQ(at(4).text, "hi");
  ASSERT_EQ(at(5).items.size(), 4U);
  EXPECT_EQ(read.at(at(5).items[1]).integer, 258);
  EXPECT_EQ(read.at(at(5).items[2]).integer, -2);
  EXPECT_EQ(read.at(at(5).items[3]).integer, 0);
  EXPECT_EQ(at(6).kind, Kind::tuple);
  EXPECT_EQ(at(7).name->name, "float32");
  EXPECT_EQ(at(8).items.size(), 2U);
}

TEST(Pickle, ReadsMemo) {
  const std::string bytes = pickle("]q\5(K\7r\0\1\0\0h\5j\0\1\0\0e"s);
  const Pickle read = parse_pickle(bytes_of(bytes), "f");
  const PickleValue& list = read.top();
  ASSERT_EQ(list.items.size(), 3U);
  EXPECT_EQ(list.items[1], read.root);  // a list that holds itself is no trouble
  EXPECT_EQ(list.items[0], list.items[2]);
}

TEST(Pickle, DropsAttributesOfDict) {
  const std::string bytes = pickle(call(name("collections", "OrderedDict"), {}) + dict({text("_metadata"), "}"}) + "b");
  EXPECT_TRUE(parse_pickle(bytes_of(bytes), "f").top().items.empty());
}

TEST(Pickle, NamesEveryPythonOpcode) {
  EXPECT_EQ(opcode_name(0x93), "STACK_GLOBAL");
  EXPECT_EQ(opcode_name('i'), "INST");
  EXPECT_EQ(opcode_name(0xff), "");
  size_t names = 0;
  for (int code = 0; code < 256; ++code) names += opcode_name(static_cast<uint8_t>(code)).empty() ? 0 : 1;
  EXPECT_EQ(names, 68U);
}

struct Hostile {
  const char* what;
  std::string pickle;
  const char* message;
};

// What attackers and fuzzers of other readers have tried. Run by Python, most would run a shell command.
std::vector<Hostile> hostile_pickles(const std::string& command) {
  const std::string shell = text(command), argument = "(" + shell + "tR";
  const std::string state = text("w") + tensor();
  return {
      // Names that run code.
      {"os.system", pickle(name("os", "system") + argument), "it names 'os.system'"},
      {"posix.system", pickle(name("posix", "system") + argument), "it names 'posix.system'"},
      {"nt.system", pickle(name("nt", "system") + argument), "it names 'nt.system'"},
      {"subprocess.Popen", pickle(name("subprocess", "Popen") + argument), "'subprocess.Popen'"},
      {"subprocess.check_output", pickle(name("subprocess", "check_output") + argument), "'subprocess.check_output'"},
      {"builtins.eval", pickle(name("builtins", "eval") + argument), "'builtins.eval'"},
      {"builtins.exec", pickle(name("builtins", "exec") + argument), "'builtins.exec'"},
      {"__builtin__.eval", pickle(name("__builtin__", "eval") + argument), "'__builtin__.eval'"},
      {"builtins.getattr", pickle(name("builtins", "getattr") + tuple({name("os", "x"), shell}) + "R"),
       "'builtins.getattr'"},
      {"builtins.__import__", pickle(name("builtins", "__import__") + argument), "'builtins.__import__'"},
      {"builtins.compile", pickle(name("builtins", "compile") + argument), "'builtins.compile'"},
      {"runpy", pickle(name("runpy", "_run_code") + argument), "'runpy._run_code'"},
      {"importlib", pickle(name("importlib", "import_module") + argument), "'importlib.import_module'"},
      {"pty.spawn", pickle(name("pty", "spawn") + argument), "'pty.spawn'"},
      {"webbrowser.open", pickle(name("webbrowser", "open") + argument), "'webbrowser.open'"},
      {"socket", pickle(name("socket", "create_connection") + argument), "'socket.create_connection'"},
      {"pip", pickle(name("pip", "main") + argument), "'pip.main'"},
      {"timeit", pickle(name("timeit", "timeit") + argument), "'timeit.timeit'"},
      {"bdb.Bdb.run", pickle(name("bdb", "Bdb.run") + argument), "'bdb.Bdb.run'"},
      {"numpy", pickle(name("numpy.testing._private.utils", "runstring") + argument), "runstring'"},
      {"operator.attrgetter", pickle(name("operator", "attrgetter") + argument), "'operator.attrgetter'"},
      {"functools.partial", pickle(name("functools", "partial") + argument), "'functools.partial'"},
      {"asyncio", pickle(name("asyncio.unix_events", "_UnixSubprocessTransport._start") + argument), "asyncio"},
      // Names beside the good ones.
      {"torch.load", pickle(name("torch", "load") + argument), "'torch.load'"},
      {"torch.hub.load", pickle(name("torch.hub", "load") + argument), "'torch.hub.load'"},
      {"torch.jit", pickle(name("torch.jit.unsupported_tensor_ops", "execWrapper") + argument), "execWrapper'"},
      {"a sparse tensor", pickle(name("torch._utils", "_rebuild_sparse_tensor") + argument), "_rebuild_sparse_tensor'"},
      {"a wrapped tensor", pickle(name("torch._tensor", "_rebuild_from_type_v2") + argument), "_rebuild_from_type_v2'"},
      {"a whole module", pickle(name("torch.nn.modules.linear", "Linear") + ")\x81"),
       "'torch.nn.modules.linear.Linear'"},
      {"dotted name", pickle(name("torch", "_utils._rebuild_tensor") + argument), "'torch._utils._rebuild_tensor'"},
      {"dotted way out", pickle(name("collections", "OrderedDict.__init__") + argument), "OrderedDict.__init__'"},
      {"spaces", pickle(name("collections ", "OrderedDict") + argument), "'collections .OrderedDict'"},
      {"carriage return", pickle(name("collections", "OrderedDict\r") + argument), "'collections.OrderedDict?'"},
      {"empty name", pickle(name("", "") + argument), "it names '.'"},
      {"look-alike", pickle(name("cоllections", "OrderedDict") + argument), "it names 'cоllections.OrderedDict'"},
      {"a name that is never used", pickle(dict({text("x"), name("os", "system"), state})), "'os.system'"},
      {"a name without end", kStart + "cos", "truncated or longer than 256"},
      {"a name without second line", kStart + "cos\nsystem", "truncated or longer than 256"},
      {"a very long name", pickle("c" + std::string(300, 'a') + "\nb\n"), "truncated or longer than 256"},
      // Opcodes that make objects.
      {"INST", pickle("(" + shell + "ios\nsystem\n"), "opcode INST (0x69)"},
      {"OBJ", pickle("(" + name("collections", "OrderedDict") + shell + "o"), "opcode OBJ (0x6f)"},
      {"NEWOBJ", pickle(name("collections", "OrderedDict") + ")\x81"), "opcode NEWOBJ (0x81)"},
      {"NEWOBJ_EX", pickle(name("collections", "OrderedDict") + ")}\x92"), "opcode NEWOBJ_EX (0x92)"},
      {"STACK_GLOBAL", pickle(text("os") + text("system") + "\x93"), "opcode STACK_GLOBAL (0x93)"},
      {"EXT1", pickle("\x82\1"), "opcode EXT1 (0x82)"},
      {"EXT2", pickle("\x83\1\1"), "opcode EXT2 (0x83)"},
      {"EXT4", pickle("\x84\1\1\1\1"), "opcode EXT4 (0x84)"},
      {"PERSID", pickle("P0\n"), "opcode PERSID (0x50)"},
      {"BUILD on a name", pickle(name("torch", "Size") + "}b"), "it sets the state of a name from a dict"},
      {"BUILD with __setstate__",
       pickle(name("torch", "Size") + dict({text("__setstate__"), shell}) + "b" + shell + "b"),
       "it sets the state of a name"},
      {"BUILD on a tensor", pickle(tensor() + dict({text("__class__"), shell}) + "b"), "it sets the state of a tensor"},
      {"BUILD with a tuple", pickle("}" + tuple({"N", "}"}) + "b"), "it sets the state of a dict from a tuple"},
      {"BUILD with itself", pickle("Nb"), "the stack is empty"},
      // Calls of what is no function.
      {"REDUCE on text", pickle(shell + ")R"), "it calls a string, want a function by name"},
      {"REDUCE on a dict", pickle("})R"), "it calls a dict"},
      {"REDUCE on a call", pickle(tensor() + ")R"), "it calls a tensor"},
      {"REDUCE on a storage", pickle(name("torch", "FloatStorage") + ")R"),
       "'torch.FloatStorage', which is no function"},
      {"REDUCE on a type", pickle(name("torch", "float32") + ")R"), "'torch.float32', which is no function"},
      {"REDUCE with a list", pickle(name("torch", "Size") + "]R"), "'torch.Size' with a list, want a tuple"},
      {"REDUCE with nothing", pickle("R"), "the stack is empty"},
      {"Size of two", pickle(call(name("torch", "Size"), {")", ")"})), "torch.Size wants one tuple"},
      {"OrderedDict of two", pickle(call(name("collections", "OrderedDict"), {"]", "]"})), "nothing or one list"},
      {"OrderedDict of text", pickle(call(name("collections", "OrderedDict"), {shell})), "nothing or one list"},
      {"OrderedDict of odd pairs", pickle(call(name("collections", "OrderedDict"), {"](K\1K\2e"})), "pairs of key"},
      {"OrderedDict of triples", pickle(call(name("collections", "OrderedDict"), {"](K\1K\2K\3\x87"s + "e"})), "pairs"},
      // Protocols and frames of other versions.
      {"protocol 0", "(lp0\n.", "no pickle of protocol 2"},
      {"protocol 1", "]q\0."s, "no pickle of protocol 2"},
      {"protocol 3", "\x80\3N.", "got pickle protocol 3, want 2"},
      {"protocol 4", "\x80\4\x95\1\0\0\0\0\0\0\0N."s, "got pickle protocol 4, want 2"},
      {"protocol 5", "\x80\5N.", "got pickle protocol 5, want 2"},
      {"protocol 255", "\x80\xffN.", "got pickle protocol 255"},
      {"protocol twice", pickle("\x80\2N"), "opcode PROTO (0x80)"},
      {"another protocol later", pickle("\x80\4N"), "opcode PROTO (0x80)"},
      {"a frame", pickle("\x95\1\0\0\0\0\0\0\0N"s), "opcode FRAME (0x95)"},
      {"a frame of 2^63", pickle("\x95\0\0\0\0\0\0\0\x80N"s), "opcode FRAME (0x95)"},
      {"SHORT_BINUNICODE", pickle("\x8c\1x"), "opcode SHORT_BINUNICODE (0x8c)"},
      {"BINUNICODE8", pickle("\x8d\1\0\0\0\0\0\0\0x"s), "opcode BINUNICODE8 (0x8d)"},
      {"BINBYTES8", pickle("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"), "opcode BINBYTES8 (0x8e)"},
      {"BYTEARRAY8", pickle("\x96\xff\xff\xff\xff\xff\xff\xff\xff"), "opcode BYTEARRAY8 (0x96)"},
      {"NEXT_BUFFER", pickle("\x97"), "opcode NEXT_BUFFER (0x97)"},
      {"MEMOIZE", pickle("N\x94"), "opcode MEMOIZE (0x94)"},
      {"EMPTY_SET", pickle("\x8f"), "opcode EMPTY_SET (0x8f)"},
      {"FROZENSET", pickle("(\x91"), "opcode FROZENSET (0x91)"},
      {"BINBYTES", pickle("B\1\0\0\0x"s), "opcode BINBYTES (0x42)"},
      {"STRING", pickle("S'x'\n"), "opcode STRING (0x53)"},
      {"UNICODE", pickle("Vx\n"), "opcode UNICODE (0x56)"},
      {"INT", pickle("I1\n"), "opcode INT (0x49)"},
      {"LONG", pickle("L1L\n"), "opcode LONG (0x4c)"},
      {"FLOAT", pickle("F1.0\n"), "opcode FLOAT (0x46)"},
      {"GET", pickle("g0\n"), "opcode GET (0x67)"},
      {"PUT", pickle("Np0\n"), "opcode PUT (0x70)"},
      {"DUP", pickle("N2"), "opcode DUP (0x32)"},
      {"POP", pickle("NN0"), "opcode POP (0x30)"},
      {"POP_MARK", pickle("(N1"), "opcode POP_MARK (0x31)"},
      {"no opcode", pickle("\xff"), "opcode unknown (0xff)"},
      // Sizes, limits and cuts.
      {"LONG4 of 4 GiB", pickle("\x8b\xff\xff\xff\xff"), "opcode LONG4 (0x8b)"},
      {"LONG1 of 255 bytes", pickle("\x8a\xff" + std::string(255, '\x7f')), "a number of 255 bytes, want at most 8"},
      {"LONG1 of 9 bytes", pickle("\x8a\x09" + std::string(9, '\1')), "a number of 9 bytes"},
      {"text of 4 GiB", pickle("X\xff\xff\xff\xff"), "truncated: got 1 bytes, want 4294967295"},
      {"BINSTRING of 2 GiB", pickle("T\xff\xff\xff\x7f"), "truncated"},
      {"broken UTF-8", pickle(text("\xc0\x80")), "a string is not UTF-8"},
      {"memo place 2^32-1", pickle("Nr\xff\xff\xff\xff"),
       "got memo place 4294967295 after 1 values, want less than 257"},
      {"memo place never filled", pickle("h\7"), "memo place 7 is empty"},
      {"memo place between", pickle("Nq\7h\3"), "memo place 3 is empty"},
      {"memo of nothing", pickle("q\0"s), "the stack is empty"},
      {"doubling by the memo", pickle(")q\0"s + repeated("h\0h\0\x86q\0"s, 100)), "values nest more than 64 deep"},
      {"a million copies", pickle("(Nq\0"s + repeated("h\0"s, 300000) + "t"), "more than 262144 values wait"},
      {"a million lists", pickle("(" + repeated("]", 300000) + "t"), "more than 262144 values"},
      {"a million short-lived values", pickle("N" + repeated("]\x85", 300000)), "more than 262144 values"},
      {"many items", pickle("Nq\0]"s + repeated("(" + repeated("h\0"s, 250000) + "e", 5)), "more than 1048576 items"},
      {"deep tuples", pickle("N" + repeated("\x85", 1000)), "values nest more than 64 deep"},
      {"deep lists", pickle(repeated("]", 1000) + repeated("a", 999)), "values nest more than 64 deep"},
      {"deep marks", pickle(repeated("(", 100000)), "more than 64 marks"},
      {"no mark", pickle("Nt"), "no mark is left"},
      {"below the mark", pickle("N(\x85"), "got 0 values on the stack, want 1"},
      {"items for no list", pickle("}(Ne"), "got a dict to put items into, want a list"},
      {"items for no dict", pickle("](NNu"), "got a list to put items into, want a dict"},
      {"items for nothing", pickle("(NNu"), "the stack is empty"},
      {"a key without a value", pickle("}(Nu"), "a dict gets a key without a value"},
      {"nothing", "", "no pickle of protocol 2"},
      {"only a protocol", kStart, "truncated"},
      {"no STOP", kStart + "N", "truncated: got 0 bytes, want 1"},
      {"STOP at once", pickle(""), "got 0 values at the end, want 1"},
      {"two values", pickle("NN"), "got 2 values at the end, want 1"},
      {"a mark at the end", pickle("(N"), "at the end, want 1"},
      {"a cut number", kStart + "J\1", "truncated: got 1 bytes, want 4"},
      {"a cut float", kStart + "G\1", "truncated: got 1 bytes, want 8"},
  };
}

TEST(Pickle, RejectsHostilePicklesWithoutExecution) {
  const Scratch scratch;
  const std::filesystem::path touched = scratch.path() / "touched";
  const auto corpus = hostile_pickles("touch " + touched.string());
  EXPECT_GE(corpus.size(), 40U);
  for (const Hostile& hostile : corpus) {
    SCOPED_TRACE(hostile.what);
    const std::string zip = pickled::zip_file(hostile.pickle), legacy = pickled::legacy_file(hostile.pickle);
    const Error alone = error_of([&] { (void)parse_pickle(bytes_of(hostile.pickle), "f"); });
    EXPECT_THAT(alone.what(), HasSubstr(hostile.message));
    EXPECT_THAT(alone.hint(), HasSubstr("safetensors"));
    EXPECT_THAT(error_of([&] { (void)parse_torch(bytes_of(zip), "f"); }).what(), HasSubstr(hostile.message));
    // In the stream of the older form the next pickle follows at once, so a cut one goes wrong in another way.
    EXPECT_EQ(error_of([&] { (void)parse_torch(bytes_of(legacy), "f"); }).code(), Code::bad_file);
    EXPECT_EQ(alone.code(), Code::bad_file);
    EXPECT_EQ(std::string_view(alone.what()).find('\n'), std::string_view::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(touched));
}

}  // namespace
}  // namespace exeunt
