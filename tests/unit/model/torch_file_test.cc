// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/torch_file.h"

#include <set>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/expected_tensors.h"
#include "tests/unit/model/pickle_builder.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using pickled::LegacyText;
using testing::HasSubstr;

std::string zip_message(const std::string& body) {
  const std::string file = pickled::zip_file(pickled::pickle(body));
  return error_of([&] { (void)parse_torch(bytes_of(file), "f"); }).what();
}
std::string file_message(const std::string& file) {
  return error_of([&] { (void)parse_torch(bytes_of(file), "f"); }).what();
}
std::string good_pickle() {
  return pickled::pickle(pickled::state_dict(pickled::tensor()));
}
// The older form says in a sixth part that a storage is no view.
std::string legacy_pickle(const std::string& view = "N", const std::vector<int64_t>& shape = {2, 3}) {
  return pickled::pickle(
      pickled::state_dict(pickled::tensor({.storage = pickled::storage({.view = view}), .shape = shape})));
}
std::string legacy_message(const LegacyText& text) {
  return file_message(pickled::legacy_file(legacy_pickle(), text));
}

// Files by torch itself (torch-1.13 …) and by the plain script (torch-plain); scripts/golden/torch_*.py made them.
TEST(TorchFile, ReadsExpectedTensors) {
  std::set<std::string> folders;
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(EXEUNT_TEST_DATA "/model/data")) {
    const std::string folder = entry.path().parent_path().filename().string();
    if (entry.path().extension() != ".bin" || !folder.starts_with("torch-")) continue;
    SCOPED_TRACE(folder + "/" + entry.path().filename().string());
    expect_tensors(read_torch(entry.path()),
                   entry.path().parent_path() / (entry.path().stem().stem().string() + ".json"));
    folders.insert(folder);
    ++files;
  }
  EXPECT_TRUE(folders.contains("torch-plain"));
  EXPECT_GE(folders.size(), 2U);  // at least one version of torch itself
  EXPECT_GE(files, 18U);
}

TEST(TorchFile, KeepsViewsOfOneStorage) {
  const TensorSet set = read_torch(EXEUNT_TEST_DATA "/model/data/torch-plain/tensors.zip.bin");
  const TensorView& weight = *set.find("encoder.weight");
  EXPECT_TRUE(weight.strides.empty());
  EXPECT_EQ(set.find("encoder.tied")->bytes.data(), weight.bytes.data());
  const TensorView& transposed = *set.find("encoder.transposed");
  EXPECT_EQ(transposed.bytes.data(), weight.bytes.data());
  EXPECT_EQ(transposed.strides, (std::vector<int64_t>{1, 6}));
  const TensorView& inner = *set.find("encoder.inner");
  EXPECT_EQ(inner.bytes.data(), weight.bytes.data() + 7 * 4);
  EXPECT_EQ(inner.bytes.size(), 11U * 4);  // to the last element it reaches
}

// Each name costs a few bytes of the file, and as much memory as the storage when it is copied.
TEST(TorchFile, RejectsManyNamesOfOneStorage) {
  const int64_t elements = 1 << 18;
  const std::string content(4 * elements, '\1');
  const auto file = [&](int names) {
    const std::string tensor = pickled::tensor(
        {.storage = pickled::storage({.key = "1", .elements = elements}), .shape = {elements}, .strides = {1}});
    std::vector<std::string> items;
    for (int i = 0; i < names; ++i) {
      items.push_back(pickled::text(fmt::format("w{}", i)));
      items.push_back(tensor);
    }
    return pickled::zip_file(pickled::pickle(pickled::dict(items)), {{.name = "archive/data/1", .data = content}});
  };
  const std::string few = file(8), many = file(9);  // four times the storage and one MiB
  EXPECT_EQ(parse_torch(bytes_of(few), "f").tensors.size(), 8U);
  EXPECT_THAT(file_message(many), HasSubstr("its tensors take more than 4 times"));
}

TEST(TorchFile, TensorsOutliveReader) {
  TensorSet set = read_torch(EXEUNT_TEST_DATA "/model/data/torch-plain/views.legacy.bin");
  const TensorSet kept = std::move(set);
  EXPECT_EQ(to_floats(*kept.find("right")), (std::vector<float>{16, 17, 18, 19}));
}

TEST(TorchFile, RejectsOtherFiles) {
  EXPECT_THAT(file_message(""), HasSubstr("f: no PyTorch file"));
  EXPECT_THAT(file_message("hello, world, this is text"), HasSubstr("f: no PyTorch file"));
  EXPECT_EQ(error_of([] { (void)read_torch("no/such/file.bin"); }).code(), Code::bad_file);
  EXPECT_THAT(error_of([] { (void)parse_torch_legacy(bytes_of("PK\3\4"), "f"); }).what(), HasSubstr("no PyTorch file"));
}

TEST(TorchFile, RejectsArchiveNotFromPyTorch) {
  const auto with = [](ZipPart part) { return file_message(pickled::zip_file(good_pickle(), {std::move(part)})); };
  EXPECT_THAT(file_message(build_zip({{.name = "readme.txt", .data = "x"}})), HasSubstr("holds no data.pkl"));
  EXPECT_THAT(file_message(build_zip({{.name = "data.pkl", .data = "x"}})), HasSubstr("holds no data.pkl"));
  EXPECT_THAT(file_message(build_zip({{.name = "a/b/data.pkl", .data = "x"}})), HasSubstr("holds no data.pkl"));
  EXPECT_THAT(with({.name = "other/data.pkl", .data = "x"}), HasSubstr("more than one data.pkl"));
  EXPECT_THAT(with({.name = "other/x", .data = "x"}), HasSubstr("entry 'other/x' lies outside the folder 'archive/'"));
  EXPECT_THAT(with({.name = "archive/constants.pkl", .data = "x"}), HasSubstr("TorchScript"));
  EXPECT_THAT(with({.name = "archive/byteorder", .data = "big"}), HasSubstr("got byte order 'big', want 'little'"));
  EXPECT_THAT(file_message(pickled::zip_file(good_pickle() + "x")), HasSubstr("got 1 bytes behind the pickle"));
  const std::string good = pickled::zip_file(good_pickle(), {{.name = "archive/byteorder", .data = "little"}});
  EXPECT_EQ(parse_torch(bytes_of(good), "f").tensors.size(), 1U);
}

TEST(TorchFile, FindsStateDictOrFails) {
  using pickled::dict, pickled::tensor, pickled::text;
  EXPECT_THAT(zip_message("]"), HasSubstr("got a list, want a dict of tensors"));
  EXPECT_THAT(zip_message(tensor()), HasSubstr("got a tensor, want a dict of tensors"));
  EXPECT_THAT(zip_message("}"), HasSubstr("it holds no tensors: got a dict of 0 keys"));
  EXPECT_THAT(zip_message(dict({text("epoch"), "K\1", text("weights"), dict({text("w"), tensor()})})),
              HasSubstr("got a dict of 2 keys: 'epoch' 'weights'"));
  EXPECT_THAT(zip_message(dict({"K\1", tensor()})), HasSubstr("got a tensor under an integer"));
  EXPECT_THAT(zip_message(dict({text(""), tensor()})), HasSubstr("under a string of 0 bytes"));
  EXPECT_THAT(zip_message(dict({text(std::string(513, 'n')), tensor()})), HasSubstr("under a string of 513 bytes"));
  EXPECT_THAT(zip_message(dict({text("w"), tensor(), text("w"), tensor()})), HasSubstr("tensor 'w': it appears twice"));
}

TEST(TorchFile, RejectsTensorOutsideStorage) {
  using pickled::TensorText;
  constexpr int64_t kHuge = INT64_MAX, kHalf = int64_t{1} << 32;
  const auto message = [](const TensorText& it) { return zip_message(pickled::state_dict(pickled::tensor(it))); };
  EXPECT_THAT(message({.shape = {2, 4}, .strides = {4, 1}}),
              HasSubstr("f: tensor 'w': shape [2, 4], stride [4, 1] from 0 does not fit in a storage of 6 elements"));
  EXPECT_THAT(message({.offset = 1}), HasSubstr("from 1 does not fit"));
  EXPECT_THAT(message({.offset = kHuge}), HasSubstr("does not fit"));
  EXPECT_THAT(message({.offset = -1}), HasSubstr("offset: got -1, want 0 or more"));
  EXPECT_THAT(message({.shape = {2, 3}, .strides = {-3, 1}}), HasSubstr("stride: got -3, want 0 or more"));
  EXPECT_THAT(message({.shape = {-2, 3}}), HasSubstr("size: got -2, want 0 or more"));
  EXPECT_THAT(message({.shape = {2, 3}, .strides = {kHuge, 1}}), HasSubstr("does not fit"));
  EXPECT_THAT(message({.shape = {3, 3}, .strides = {kHuge, kHuge}}), HasSubstr("does not fit"));
  EXPECT_THAT(message({.shape = {kHalf, kHalf}, .strides = {0, 0}}), HasSubstr("does not fit"));
  EXPECT_THAT(message({.shape = {kHuge}, .strides = {0}}), HasSubstr("repeats the 6 elements of its storage"));
  EXPECT_THAT(message({.shape = {7}, .strides = {0}}), HasSubstr("repeats the 6 elements"));
  EXPECT_THAT(message({.offset = 7, .shape = {0}, .strides = {1}}), HasSubstr("from 7 does not fit"));
  EXPECT_THAT(message({.shape = {6}, .strides = {}}), HasSubstr("got 0 strides for shape [6]"));
  EXPECT_THAT(message({.shape = std::vector<int64_t>(9, 1), .strides = std::vector<int64_t>(9, 1)}),
              HasSubstr("size: got 9 numbers, want at most 8"));
}

TEST(TorchFile, ChecksUnusedTensors) {
  using pickled::dict, pickled::tensor, pickled::text;
  const std::string body = dict({text("w"), tensor(), text("note"), "](" + tensor({.offset = 99}) + "e"});
  EXPECT_THAT(zip_message(body), HasSubstr("f: a tensor that is not used: shape [2, 3]"));
}

TEST(TorchFile, RejectsMismatchedStorages) {
  using pickled::state_dict, pickled::storage, pickled::tensor, pickled::text, pickled::tuple;
  const auto message = [](const std::string& stored) { return zip_message(state_dict(tensor({.storage = stored}))); };
  EXPECT_THAT(message(storage({.elements = 7})), HasSubstr("f: storage '0': got 24 bytes, want 7 of F32"));
  EXPECT_THAT(message(storage({.elements = 5})), HasSubstr("got 24 bytes, want 5 of F32"));
  EXPECT_THAT(message(storage({.elements = INT64_MAX})), HasSubstr("got 24 bytes, want 9223372036854775807 of F32"));
  EXPECT_THAT(message(storage({.elements = (int64_t{1} << 62) + 6})), HasSubstr("got 24 bytes"));
  EXPECT_THAT(message(storage({.elements = -6})), HasSubstr("a storage's size: got -6, want 0 or more"));
  EXPECT_THAT(message(storage({.type = "DoubleStorage"})), HasSubstr("got 24 bytes, want 6 of F64"));
  EXPECT_THAT(message(storage({.type = "Size"})), HasSubstr("a storage's type: got a name"));
  EXPECT_THAT(message(storage({.key = "../0"})), HasSubstr("storage '../0': the zip archive has no entry for it"));
  EXPECT_THAT(message(storage({.key = ""})), HasSubstr("a storage's key: got a string, want a string"));
  EXPECT_THAT(message(storage({.view = "N"})), HasSubstr("stores something other than tensors"));
  EXPECT_THAT(message("NQ"), HasSubstr("stores something other than tensors"));
  EXPECT_THAT(message(")Q"), HasSubstr("stores something other than tensors"));
  EXPECT_THAT(message(tuple({text("module"), "N", "N", "N", "N"}) + "Q"), HasSubstr("other than tensors"));
  EXPECT_THAT(message(tuple({text("storage"), "N", text("0"), "N", "K\6"}) + "Q"), HasSubstr("type: got None"));
  EXPECT_THAT(message("N"), HasSubstr("_rebuild_tensor_v2 does not get a storage"));
  const std::string other =
      tensor({.storage = storage({.elements = 3, .type = "DoubleStorage"}), .shape = {}, .strides = {}});
  EXPECT_THAT(zip_message(pickled::dict({text("w"), tensor(), text("x"), other})),
              HasSubstr("storage '0': got it as 6 of F32 and as 3 of F64"));
}

TEST(TorchFile, RejectsCallsWithWrongArguments) {
  using pickled::call, pickled::name, pickled::number, pickled::numbers, pickled::storage, pickled::tensor;
  const auto message = [](const std::string& value) { return zip_message(pickled::state_dict(value)); };
  const std::string v1 = name("torch._utils", "_rebuild_tensor"), v2 = name("torch._utils", "_rebuild_tensor_v2");
  const std::string parameter = name("torch._utils", "_rebuild_parameter");
  EXPECT_THAT(message(call(v2, {})), HasSubstr("_rebuild_tensor_v2 does not get"));
  EXPECT_THAT(message(call(v1, {storage(), number(0), numbers({6})})), HasSubstr("_rebuild_tensor does not get"));
  EXPECT_THAT(message(call(v1, {storage(), "N", numbers({6}), numbers({1})})), HasSubstr("offset: got None"));
  EXPECT_THAT(message(call(v1, {storage(), number(0), "]", numbers({1})})), HasSubstr("size: got a list"));
  EXPECT_THAT(message(call(v1, {storage(), number(0), "(Nt", numbers({1})})), HasSubstr("size: got None"));
  EXPECT_THAT(message(call(v1, {storage(), number(0), numbers({6}), "N"})), HasSubstr("stride: got None"));
  EXPECT_THAT(message(call(parameter, {})), HasSubstr("_rebuild_parameter does not get a tensor"));
  EXPECT_THAT(message(call(parameter, {"N", "\x88", "}"})), HasSubstr("_rebuild_parameter does not get a tensor"));
  EXPECT_THAT(message(call(parameter, {call(parameter, {tensor(), "\x88", "}"}), "\x88", "}"})),
              HasSubstr("_rebuild_parameter does not get a tensor"));
}

TEST(TorchFile, ChecksLegacyFormat) {
  using pickled::dict, pickled::pickle, pickled::text;
  EXPECT_THAT(legacy_message({.version = pickle("M\xea\x03")}), HasSubstr("got version 1002, want 1001"));
  EXPECT_THAT(legacy_message({.version = pickle("N")}), HasSubstr("want 1001"));
  EXPECT_THAT(legacy_message({.machine = pickle(dict({text("little_endian"), "\x89"}))}), HasSubstr("big-endian"));
  EXPECT_THAT(legacy_message({.machine = pickle("}")}), HasSubstr("big-endian"));
  EXPECT_THAT(legacy_message({.machine = pickle("N")}), HasSubstr("big-endian"));
  EXPECT_THAT(legacy_message({.keys = pickle("N")}), HasSubstr("list of storages: got None, want a list"));
  EXPECT_THAT(legacy_message({.keys = pickle("]")}), HasSubstr("'0' is named, but not in the list"));
  EXPECT_THAT(legacy_message({.keys = pickle("](" + text("0") + text("0") + "e")}), HasSubstr("'0': it appears twice"));
  EXPECT_THAT(legacy_message({.keys = pickle("](" + text("0") + text("1") + "e")}), HasSubstr("'1': no tensor names"));
  EXPECT_THAT(legacy_message({.keys = pickle("](Ne")}), HasSubstr("storage '': no tensor names it"));
  EXPECT_THAT(legacy_message({.storages = ""}), HasSubstr("truncated: got 0 bytes, want 6 of F32"));
  EXPECT_THAT(legacy_message({.storages = little(6, 8) + "short"}), HasSubstr("truncated: got 13 bytes"));
  EXPECT_THAT(legacy_message({.storages = little(7, 8) + std::string(28, 'x')}), HasSubstr("got 7 elements, want 6"));
  EXPECT_THAT(legacy_message({.storages = little(6, 8) + std::string(25, 'x')}), HasSubstr("got 1 bytes behind"));
  EXPECT_THAT(file_message(pickled::legacy_file(good_pickle())), HasSubstr("stores something other than tensors"));
}

TEST(TorchFile, RejectsViewsOutsideStorage) {
  using pickled::number, pickled::text, pickled::tuple;
  const auto message = [](const std::string& view) { return file_message(pickled::legacy_file(legacy_pickle(view))); };
  EXPECT_THAT(message("]"), HasSubstr("want (key, offset, size)"));
  EXPECT_THAT(message(tuple({text("v"), number(0)})), HasSubstr("got a view of 2 parts"));
  EXPECT_THAT(message(tuple({text("v"), number(1), number(6)})),
              HasSubstr("a view of 6 elements from 1, want it within 6"));
  EXPECT_THAT(message(tuple({text("v"), number(-1), number(6)})), HasSubstr("offset of a storage's view: got -1"));
  EXPECT_THAT(message(tuple({text("v"), number(INT64_MAX), number(INT64_MAX)})), HasSubstr("want it within 6"));
  EXPECT_THAT(message(tuple({text("v"), number(1), number(5)})), HasSubstr("does not fit in a storage of 5 elements"));
}

TEST(TorchFile, RejectsEveryTruncation) {
  for (const char* name : {"tensors.zip.bin", "tensors.legacy.bin"}) {
    const std::string file = read_text(std::string(EXEUNT_TEST_DATA "/model/data/torch-plain/") + name);
    for (size_t size = 0; size < file.size(); ++size) {
      const Error error = error_of([&] { (void)parse_torch(bytes_of(file).first(size), "f"); });
      EXPECT_EQ(error.code(), Code::bad_file) << name << " " << size;
    }
  }
}

}  // namespace
}  // namespace exeunt
