// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/trace.h"

#include "exeunt/base/safetensors.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

void expect_equal(const ExitTrace& a, const ExitTrace& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.exits, b.exits);
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.logits, b.logits);
  EXPECT_EQ(a.lte, b.lte);
  EXPECT_EQ(a.ramp, b.ramp);
  EXPECT_EQ(a.lengths, b.lengths);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.info.labels, b.info.labels);
  EXPECT_EQ(a.info.layers, b.info.layers);
  EXPECT_EQ(a.info.weights, b.info.weights);
  EXPECT_EQ(a.info.precision, b.info.precision);
  EXPECT_EQ(a.info.problem, b.info.problem);
  EXPECT_EQ(a.info.max_length, b.info.max_length);
  EXPECT_EQ(a.info.numerics, b.info.numerics);
  EXPECT_EQ(a.info.precision_map, b.info.precision_map);
  EXPECT_EQ(a.info.last_head, b.info.last_head);
  EXPECT_EQ(a.reference, b.reference);
  EXPECT_EQ(a.row_hash, b.row_hash);
  EXPECT_EQ(a.learned, b.learned);
  ASSERT_EQ(a.gold.size(), b.gold.size());
  for (size_t i = 0; i < a.gold.size(); ++i)
    EXPECT_TRUE(a.gold[i] == b.gold[i] || (std::isnan(a.gold[i]) && std::isnan(b.gold[i])));
}

TEST(Trace, RoundTripsThroughFile) {
  const Scratch scratch;
  for (const TraceShape& shape : {TraceShape{}, TraceShape{.classes = 2, .lte = true}, TraceShape{.classes = 1},
                                  TraceShape{.classes = 2, .ramp = true}, TraceShape{.rows = 1, .exits = 1}}) {
    ExitTrace trace = random_trace(shape);
    trace.info.max_length = 128;
    trace.gold[0] = NAN;
    write_trace(scratch.path() / "t.safetensors", trace);
    expect_equal(read_trace(scratch.path() / "t.safetensors"), trace);
    trace.lengths.clear();
    trace.info.numerics = 7;
    trace.info.precision_map = "";
    trace.info.last_head = LastHead::ramp;
    trace.reference.assign(trace.rows * static_cast<size_t>(trace.width), 0.5F);
    for (size_t row = 0; row < trace.rows; ++row) {
      trace.row_hash.push_back(~uint64_t{0} - row);
      trace.learned.push_back(static_cast<uint8_t>(row % 3));
    }
    write_trace(scratch.path() / "t.safetensors", trace);
    expect_equal(read_trace(scratch.path() / "t.safetensors"), trace);
  }
}

TEST(Trace, ReadsStoredTraces) {
  const ExitTrace trace = read_trace(real_trace("mnli-exeunt.dev"));
  EXPECT_EQ(trace.rows, 5000u);
  EXPECT_EQ(trace.exits, 12);
  EXPECT_EQ(trace.width, 3);
  EXPECT_TRUE(trace.labelled());
  EXPECT_EQ(trace.info.labels[2], "neutral");
  EXPECT_EQ(trace.info.task, "MNLI");
  EXPECT_EQ(trace.info.max_length, 128);
  // What the file does not say is not known.
  EXPECT_FALSE(trace.info.precision_map);
  EXPECT_EQ(trace.info.numerics, 0);
  EXPECT_TRUE(trace.reference.empty() && trace.row_hash.empty() && trace.learned.empty());
  const ExitTrace numbers = read_trace(real_trace("stsb-exeunt.dev"));
  EXPECT_EQ(numbers.info.problem, Problem::regression);
  EXPECT_EQ(numbers.sites().problem, Problem::regression);
}

TEST(Trace, NamesRowAndExitOfLogitThatIsNoNumber) {
  const Scratch scratch;
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    ExitTrace trace = random_trace({.rows = 9, .exits = 4, .classes = 3});
    trace.logits[(7 * 4 + 2) * 3 + 1] = bad;
    const Error error = error_of([&] { write_trace(scratch.path() / "t.safetensors", trace); });
    EXPECT_EQ(error.code(), Code::bad_file);
    EXPECT_THAT(error.what(), HasSubstr("in row 7 at exit 3 (layer 3), want finite numbers"));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "t.safetensors"));
}

// Writes a trace file with its pieces changed by `spoil`, and gives the error of reading it.
template <class Spoil>
Error spoiled(Spoil&& spoil) {
  const Scratch scratch;
  const auto path = scratch.path() / "t.safetensors";
  write_trace(path, random_trace({.rows = 3, .exits = 2, .classes = 2, .lte = true}));
  const TensorSet set = read_safetensors(path);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : set.tensors) tensors.push_back({name, view});
  std::map<std::string, std::string> strings(set.metadata.begin(), set.metadata.end());
  spoil(tensors, strings);
  write_safetensors(scratch.path() / "bad.safetensors", tensors, Metadata(strings.begin(), strings.end()));
  const Error error = error_of([&] { (void)read_trace(scratch.path() / "bad.safetensors"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("bad.safetensors"));
  return error;
}

using Tensors = std::vector<NamedTensor>;
using Strings = std::map<std::string, std::string>;

TensorView& named(Tensors& tensors, std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; })->view;
}

TEST(Trace, RejectsInvalidMetadata) {
  const Error old = spoiled([](Tensors&, Strings& s) { s["format"] = "exeunt.trace/1"; });
  EXPECT_THAT(old.what(), HasSubstr("got the format 'exeunt.trace/1', want 'exeunt.trace/2'"));
  EXPECT_THAT(old.hint(), HasSubstr("exeunt trace MODEL"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["last_head"] = "first"; }).what(), HasSubstr("want final or ramp"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["numerics"] = "-1"; }).what(), HasSubstr("numerics: got '-1'"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s.erase("format"); }).what(), HasSubstr("missing field 'format'"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s.erase("weights"); }).what(), HasSubstr("missing field 'weights'"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["problem"] = "ranking"; }).what(), HasSubstr("got 'ranking'"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["problem"] = "regression"; }).what(), HasSubstr("of 2 outputs"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["labels"] = "[\"a\"]"; }).what(), HasSubstr("got 1, want 2"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["labels"] = "[\"a\",\"a\"]"; }).what(),
              HasSubstr("duplicate label 'a'"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["labels"] = "[1,2]"; }).what(), HasSubstr("want names"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["labels"] = "{"; }).what(), HasSubstr("no valid JSON"));
  for (const char* exits : {"1", "1,2,3", "2,1", "1,1", "-1,1", "1,x", "", "1,,2", "1,2,"})
    EXPECT_THAT(spoiled([&](Tensors&, Strings& s) { s["exits"] = exits; }).what(), HasSubstr("exits")) << exits;
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["max_length"] = "long"; }).what(), HasSubstr("max_length"));
  const Error unknown = spoiled([](Tensors&, Strings& s) { s["wieghts"] = "x"; });
  EXPECT_THAT(unknown.what(), HasSubstr("unknown field 'wieghts'"));
  EXPECT_EQ(unknown.hint(), "did you mean 'weights'?");
}

TEST(Trace, RejectsInvalidTensors) {
  const Error unknown = spoiled([](Tensors& t, Strings&) { t.push_back({"logit", t[0].view}); });
  EXPECT_THAT(unknown.what(), HasSubstr("unknown tensor 'logit'"));
  EXPECT_EQ(unknown.hint(), "did you mean 'logits'?");
  for (const std::string name : {"logits", "gold", "index"})
    EXPECT_THAT(spoiled([&](Tensors& t, Strings&) {
                  t.erase(std::find_if(t.begin(), t.end(), [&](const NamedTensor& n) { return n.name == name; }));
                }).what(),
                HasSubstr("missing tensor '" + name + "'"));
  EXPECT_THAT(spoiled([](Tensors& t, Strings&) { named(t, "logits").dtype = DType::i32; }).what(),
              HasSubstr("got I32, want F32"));
  EXPECT_THAT(spoiled([](Tensors& t, Strings&) {
                named(t, "logits").shape = {3, 4};
              }).what(),
              HasSubstr("want [rows, exits, outputs]"));
  EXPECT_THAT(spoiled([](Tensors& t, Strings&) {
                named(t, "lte").shape = {2, 3};
              }).what(),
              HasSubstr("got shape [2, 3], want [3, 2]"));
  EXPECT_THAT(spoiled([](Tensors& t, Strings&) { named(t, "gold").shape = {3, 1}; }).what(), HasSubstr("want [3]"));
}

TEST(Trace, RejectsInvalidRows) {
  const auto refused = [](auto&& spoil) {
    ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 2, .lte = true});
    spoil(trace);
    return error_of([&] { check_trace(trace, "t"); });
  };
  EXPECT_THAT(refused([](ExitTrace& t) { t.gold[1] = 2; }).what(),
              HasSubstr("gold: got 2 in row 1, want a label from 0 to 1"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.gold[1] = 0.5F; }).what(), HasSubstr("gold: got 0.5"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.gold[1] = INFINITY; }).what(), HasSubstr("gold: got inf"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.lengths[2] = 0; }).what(), HasSubstr("lengths: got 0 in row 2"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.index[0] = -1; }).what(), HasSubstr("index: got -1 in row 0"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.lte[3] = 1.5F; }).what(), HasSubstr("lte: got 1.5 in row 1 at exit 2"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.lte[3] = NAN; }).what(), HasSubstr("lte: got nan"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.learned = {0, 3, 0}; }).what(), HasSubstr("learned: got 3 in row 1"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.row_hash = {1}; }).what(), HasSubstr("row_hash: got 1 values, want 3"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.reference.assign(6, NAN); }).what(), HasSubstr("reference: got nan"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.ramp.assign(6, NAN); }).what(), HasSubstr("ramp: got nan in row 0"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.ramp.assign(5, 0); }).what(), HasSubstr("ramp: got 5 values, want 6"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.rows = 0; }).what(), HasSubstr("got no rows"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.width = 1; }).what(), HasSubstr("logits: got 12 values"));
  EXPECT_THAT(refused([](ExitTrace& t) { t.exits = 0; }).what(), HasSubstr("got 0 exits"));
}

TEST(Trace, RejectsOutputsThatDoNotFitTheProblem) {
  const auto refused = [](auto&& spoil) {
    ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 2});
    spoil(trace);
    return std::string(error_of([&] { check_trace(trace, "t"); }).what());
  };
  EXPECT_EQ(refused([](ExitTrace& t) { t.width = 0; }), "t: got 0 outputs, want 1 to 65536");
  EXPECT_EQ(refused([](ExitTrace& t) { t.width = 65537; }), "t: got 65537 outputs, want 1 to 65536");
  EXPECT_EQ(refused([](ExitTrace& t) {
              t.info.logit_thresholds = {0.5F, 0.5F};
            }),
            "t: thresholds: got 2, want one for each label of a multi-label model");
  EXPECT_EQ(refused([](ExitTrace& t) {
              t.info.problem = Problem::multi_label;
              t.gold = {0, 1, 1, 0, 1, 1};
              t.info.logit_thresholds = {0.5F};
            }),
            "t: thresholds: got 1, want one for each label of a multi-label model");
  EXPECT_EQ(refused([](ExitTrace& t) {
              t.info.problem = Problem::multi_label;
              t.gold = {0, 1, 1, 2, 1, 1};
            }),
            "t: gold: got 2 in row 1, want 0, 1 or NaN for each label");
  EXPECT_EQ(refused([](ExitTrace& t) { t.lte = {2, 0, 0, 0, 0, 0}; }),
            "t: lte: got 2 in row 0 at exit 1, want numbers from 0 to 1");
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["labels"] = "{}"; }).what(), HasSubstr("want a list of names"));
  EXPECT_THAT(spoiled([](Tensors&, Strings& s) { s["format"] = std::string(65, 'x'); }).what(),
              HasSubstr("got the format '" + std::string(64, 'x') + "', want"));
}

TEST(Trace, RightAnswersAreTheWholeGold) {
  ExitTrace trace = random_trace({.rows = 2, .exits = 2, .classes = 2});
  trace.gold = {1, 0};
  EXPECT_TRUE(trace.right(0, std::vector<float>{0, 1}));
  EXPECT_FALSE(trace.right(1, std::vector<float>{0, 1}));
  trace.info.problem = Problem::multi_label;
  trace.gold = {1, 1, 0, 1};
  EXPECT_TRUE(trace.right(0, std::vector<float>{2, 1}));
  EXPECT_FALSE(trace.right(0, std::vector<float>{2, -1}));
  EXPECT_FALSE(trace.right(1, std::vector<float>{2, 1}));
  EXPECT_TRUE(trace.right(1, std::vector<float>{-2, 1}));
}

TEST(Trace, RejectsTraceOfAnotherModel) {
  ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 2});
  trace.info.max_length = 48;
  trace.info.tokenizer = "t1";
  trace.info.precision_map = "";
  TraceInfo owner = trace.info;
  owner.max_length = 0;
  owner.tokenizer.clear();
  owner.precision_map.reset();
  EXPECT_NO_THROW(require_owner(trace, owner, "t"));  // what the owner does not say is not compared
  owner.max_length = 48;
  owner.tokenizer = "t1";
  owner.precision_map = "";
  EXPECT_NO_THROW(require_owner(trace, owner, "t"));
  const auto refused = [&](auto&& change) {
    TraceInfo other = owner;
    change(other);
    const Error error = error_of([&] { require_owner(trace, other, "t"); });
    EXPECT_EQ(error.code(), Code::bad_file);
    EXPECT_THAT(error.hint(), HasSubstr("make the trace again"));
    return std::string(error.what());
  };
  EXPECT_EQ(refused([](TraceInfo& o) { o.weights = "0123456789abcdef"; }),
            "t: is a trace of another model: got weights aaaaaaaaaaaa, want 0123456789ab");
  EXPECT_THAT(refused([](TraceInfo& o) { std::swap(o.labels[0], o.labels[1]); }), HasSubstr("other labels"));
  EXPECT_THAT(refused([](TraceInfo& o) { o.layers = {1, 3}; }), HasSubstr("other exits: got 1,2, want 1,3"));
  EXPECT_THAT(refused([](TraceInfo& o) { o.precision = "int8"; }), HasSubstr("got fp32, want int8"));
  EXPECT_THAT(refused([](TraceInfo& o) { o.max_length = 128; }), HasSubstr("another max-length: got 48, want 128"));
  EXPECT_THAT(refused([](TraceInfo& o) { o.tokenizer = "t2"; }), HasSubstr("another tokenizer: got t1, want t2"));
  EXPECT_THAT(refused([](TraceInfo& o) { o.precision_map = "x"; }), HasSubstr("another precision.json"));
}

TEST(Trace, HashesRowsByTokens) {
  const std::vector<int32_t> a{101, 7, 102}, b{101, 8, 102}, swapped{101, 102, 7};
  EXPECT_EQ(row_hash_of(a), row_hash_of(std::vector(a)));
  EXPECT_NE(row_hash_of(a), row_hash_of(b));
  EXPECT_NE(row_hash_of(a), row_hash_of(swapped));
  // FNV-1a of 65, 0, 0, 0: files keep these numbers, so they must stay.
  EXPECT_EQ(row_hash_of(std::vector<int32_t>{65}), 0xabd5cc8cd5077ba4ULL);
  ExitTrace trace = random_trace({.rows = 2});
  EXPECT_EQ(rows_sha256(trace), "");
  trace.row_hash = {row_hash_of(a), row_hash_of(b)};
  const std::string before = rows_sha256(trace);
  std::swap(trace.row_hash[0], trace.row_hash[1]);
  EXPECT_EQ(rows_sha256(trace), before);
  trace.row_hash[0] = 1;
  EXPECT_NE(rows_sha256(trace), before);
}

TEST(Trace, SelectsRows) {
  ExitTrace trace = random_trace({.rows = 5, .lte = true, .ramp = true});
  trace.row_hash = {1, 2, 3, 4, 5};
  trace.learned = {0, 1, 2, 2, 0};
  trace.reference = trace.ramp;
  const std::vector<size_t> rows{3, 0};
  const ExitTrace part = select_rows(trace, rows);
  check_trace(part, "part");
  ASSERT_EQ(part.rows, 2u);
  EXPECT_EQ(part.index[0], 3);
  EXPECT_EQ(part.at(1, 2)[0], trace.at(0, 2)[0]);
  EXPECT_EQ(part.lte_at(0, 1), trace.lte_at(3, 1));
  EXPECT_EQ(part.lengths[0], trace.lengths[3]);
  EXPECT_EQ(part.row_hash, (std::vector<uint64_t>{4, 1}));
  EXPECT_EQ(part.learned, (std::vector<uint8_t>{2, 0}));
  EXPECT_EQ(part.reference, part.ramp);
  ASSERT_EQ(part.ramp.size(), 2 * 3u);
  EXPECT_EQ(part.ramp[0], trace.ramp[3 * 3]);
  EXPECT_EQ(part.ramp[3], trace.ramp[0]);
}

TEST(Trace, JoinsRowsOfOneModel) {
  ExitTrace first = random_trace({.rows = 3, .lte = true});
  first.row_hash = {1, 2, 3};
  ExitTrace second = random_trace({.rows = 2, .lte = true, .seed = 2});
  second.gold.assign(2, NAN);
  const ExitTrace all = join_rows(first, second, "texts.csv");
  ASSERT_EQ(all.rows, 5U);
  EXPECT_FALSE(all.labelled());
  for (int exit = 0; exit < first.exits; ++exit) {
    EXPECT_EQ(all.at(2, exit)[1], first.at(2, exit)[1]);
    EXPECT_EQ(all.at(4, exit)[1], second.at(1, exit)[1]);
    EXPECT_EQ(all.lte_at(3, exit), second.lte_at(0, exit));
  }
  EXPECT_EQ(all.lengths.back(), second.lengths.back());
  EXPECT_EQ(all.info.data.size(), 64U);
  EXPECT_TRUE(all.row_hash.empty()) << "known of the first alone";
  second.row_hash = {4, 5};
  EXPECT_EQ(join_rows(first, second, "texts.csv").row_hash, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  second.lengths.clear();
  EXPECT_TRUE(join_rows(first, second, "texts.csv").lengths.empty());
  second.info.weights = std::string(64, 'b');
  EXPECT_THAT(error_of([&] { (void)join_rows(first, second, "texts.csv"); }).what(),
              HasSubstr("texts.csv: is a trace of another model"));
}

}  // namespace
}  // namespace exeunt
