// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/measure.h"

#include <chrono>

#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/data/task.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/exeunt_folder.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMeasured = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

struct Notices {
  std::vector<std::string> texts = {};
  [[nodiscard]] Observer observer() {
    Observer out{.notice = [this](const std::string& text) { texts.push_back(text); }};
    out.progress.now = [] { return std::chrono::duration<double>(0); };
    return out;
  }
};

// A text takes 1 ms, 1 ms for each layer and 0.5 ms for each exit; of 8 tokens twice as much.
ProfileEntry simple_times(const std::string& precision) {
  return {.precision = precision,
          .isa = "any",
          .lengths = {4, 8},
          .embedding_ms = {1, 2},
          .layer_ms = {{1, 2}, {1, 2}, {1, 2}},
          .exit_ms = {0.5, 1}};
}

std::string profile_text() {
  return json_text(profile_json({.device = "any", .entries = {simple_times("int8"), simple_times("fp32")}}));
}

TEST(Measure, TakesTimesFromTheProfileOfThePrecision) {
  const Scratch scratch;
  Measured measured{.trace = random_trace({.rows = 3, .exits = 3})};
  Notices notices;
  EXPECT_FALSE(profile_of({}, measured, notices.observer()));
  const std::string path = scratch.write("times.json", profile_text()).string();
  const auto entry = profile_of({.profile = path}, measured, notices.observer());
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->precision, "fp32");
  EXPECT_THAT(notices.texts, testing::IsEmpty());
  measured.trace.info.precision = "bf16";
  EXPECT_FALSE(profile_of({.profile = path}, measured, notices.observer()));
  EXPECT_THAT(notices.texts, testing::ElementsAre(path + ": nothing measured in bf16, so no times are predicted"));
  // The model's own, where none is named.
  const fs::path folder = scratch.path() / "model";
  (void)write_exeunt_folder(Checkpoint::open(kMeasured), folder);
  measured.model = Checkpoint::open(folder.string());
  measured.trace.info.precision = "int8";
  EXPECT_FALSE(profile_of({}, measured, notices.observer()));
  scratch.write("model/profile.json", profile_text());
  ASSERT_TRUE(profile_of({}, measured, notices.observer()));
  EXPECT_EQ(profile_of({}, measured, notices.observer())->precision, "int8");
}

TEST(Measure, ScoresByTaskModelAndProfile) {
  Measured measured{.trace = random_trace({.rows = 3, .exits = 3, .classes = 2})};
  ScorerOptions bare = scorer_options(measured);
  EXPECT_TRUE(bare.metrics.empty());
  EXPECT_FALSE(bare.mflops);
  EXPECT_FALSE(bare.milliseconds);
  EXPECT_EQ(bare.last, LastHead::final);
  EXPECT_EQ(bare.positive, 1);
  EXPECT_EQ(primary_metric(measured.trace), Metric::accuracy);
  EXPECT_FALSE(label_range(measured));
  measured.trace.info.task = "MRPC";
  measured.trace.info.last_head = LastHead::ramp;
  measured.profile = simple_times("fp32");
  measured.model = Checkpoint::open(kMeasured);
  const ScorerOptions all = scorer_options(measured);
  EXPECT_EQ(all.metrics, find_task("MRPC").metrics);
  EXPECT_EQ(all.last, LastHead::ramp);
  EXPECT_EQ(primary_metric(measured.trace), find_task("MRPC").primary);
  // The second exit, after both of the exits up to it were asked.
  EXPECT_DOUBLE_EQ(all.milliseconds(1, 4, {1, 2, 3}), 1 + 2 * 1 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(all.milliseconds(1, 8, {2, 3}), 2 + 2 * 2 + 1);
  measured.trace.info.layers = {0, 2, 3};
  measured.profile->exit_0_ms = {0.25, 0.5};
  const ScorerOptions with_exit_0 = scorer_options(measured);
  EXPECT_DOUBLE_EQ(with_exit_0.milliseconds(0, 4, {0, 2, 3}), 0.25);
  EXPECT_DOUBLE_EQ(with_exit_0.milliseconds(1, 4, {0, 2, 3}), 1 + 2 * 1 + 0.25 + 0.5);
  EXPECT_DOUBLE_EQ(with_exit_0.milliseconds(1, 4, {2, 3}), 1 + 2 * 1 + 0.5) << "exit 0 is not asked";
  measured.trace.info.layers = {1, 2, 3};
  const std::vector<int> evaluated{1, 2};
  const int64_t macs = departure_macs(measured.model->spec(), measured.model->exits(),
                                      {.after = 2, .tokens = 4, .evaluated = evaluated});
  EXPECT_DOUBLE_EQ(all.mflops(1, 4, evaluated), 2e-6 * static_cast<double>(macs));
  measured.trace.info.task = "STS-B";
  EXPECT_EQ(label_range(measured), find_task("STS-B").range);
  ExitLayout ranged = own_exits(small_spec(), 1);
  ranged.problem = Problem::regression;
  ranged.labels.clear();
  ranged.range = {-1, 1};
  measured.model = make_model(small_spec(), ranged);
  EXPECT_EQ(label_range(measured), std::pair(-1.0, 1.0));
}

TEST(Measure, ReferenceIsTheLastExitInFp32) {
  ExitTrace trace = random_trace({.rows = 2, .exits = 3, .seed = 1});
  const ExitTrace fp32 = random_trace({.rows = 2, .exits = 4, .seed = 2});
  trace.reference = {7};
  set_reference(trace, fp32);
  ASSERT_EQ(trace.reference.size(), 6U);
  for (size_t row = 0; row < 2; ++row)
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(trace.reference[row * 3 + c], fp32.at(row, 3)[c]);
}

TEST(Measure, RunsModelOverData) {
  const Scratch scratch;
  MeasureOptions options{.model = kMeasured, .max_length = 5, .threads = 1, .precision = "int8", .fp32_answers = true};
  options.data.path =
      scratch.write("my.csv", "text,label\na great film,positive\ndull,negative\nso so so so so,negative\n").string();
  Notices notices;
  const Measured measured = measure(options, notices.observer());
  EXPECT_EQ(measured.trace.rows, 3U);
  EXPECT_EQ(measured.trace.info.precision, "int8");
  EXPECT_EQ(measured.trace.info.engine.substr(0, 4), "cpu/");
  EXPECT_EQ(measured.trace.info.max_length, 5);
  EXPECT_THAT(measured.trace.lengths, testing::ElementsAre(5, 3, 5));
  EXPECT_THAT(notices.texts, testing::Contains("1 of 3 texts were truncated to 5 tokens"));
  ASSERT_TRUE(measured.model);
  options.precision = "fp32";
  const Measured fp32 = measure(options, notices.observer());
  EXPECT_TRUE(fp32.trace.reference.empty());
  ExitTrace expected = measured.trace;
  set_reference(expected, fp32.trace);
  EXPECT_EQ(measured.trace.reference, expected.reference);
  options.precision = "fp64";
  EXPECT_EQ(error_of([&] { (void)measure(options, notices.observer()); }).code(), Code::usage);
  options.precision = "fp32";
  EXPECT_EQ(measured.trace.info.last_head, LastHead::final);
  options.last_ramp = true;
  EXPECT_EQ(measure(options, notices.observer()).trace.info.last_head, LastHead::ramp);
}

TEST(Measure, StoredTraceMustBeTheModels) {
  const Scratch scratch;
  Notices notices;
  MeasureOptions options{.model = kMeasured, .threads = 1, .precision = "fp32"};
  options.data.path = scratch.write("my.csv", "text,label\na great film,positive\ndull,negative\n").string();
  const ExitTrace made = trace_model(options, notices.observer());
  const std::string path = (scratch.path() / "x.safetensors").string();
  write_trace(path, made);
  MeasureOptions stored{.model = kMeasured, .trace = path};
  stored.max_length = made.info.max_length;
  EXPECT_EQ(measure(stored, notices.observer()).trace.logits, made.logits);
  stored.precision = "int8";
  EXPECT_EQ(error_of([&] { (void)measure(stored, notices.observer()); }).code(), Code::bad_file);
  EXPECT_EQ(measure({.model = path}, notices.observer()).trace.logits, made.logits);
  EXPECT_EQ(measure({.model = path, .precision = "fp32"}, notices.observer()).trace.rows, 2U);
  EXPECT_THAT(error_of([&] { (void)measure({.model = path, .precision = "int8"}, notices.observer()); }).what(),
              testing::HasSubstr("wrong precision: got fp32, want int8"));
  const std::string plain = (scratch.path() / "plain.safetensors").string();
  write_trace(plain, random_trace({.rows = 2}));
  EXPECT_THAT(error_of([&] { (void)measure({.model = plain, .last_ramp = true}, notices.observer()); }).what(),
              testing::HasSubstr("no ramp at its last layer"));
  EXPECT_THAT(error_of([&] { (void)measure({.model = path, .trace = path}, notices.observer()); }).what(),
              testing::HasSubstr("got two traces"));
  EXPECT_THAT(error_of([&] { (void)measure({.model = path, .from_server = path}, notices.observer()); }).what(),
              testing::HasSubstr("--from-server: got a trace"));
}

TEST(Measure, NeedsDataAndSaysWhatItLacks) {
  const Scratch scratch;
  const Checkpoint model = Checkpoint::open(kMeasured);
  const Error none = error_of([&] { (void)data_for({}, model, {}); });
  EXPECT_EQ(none.code(), Code::usage);
  EXPECT_EQ(none.hint(), "name a data folder with --task and --data, or a file of your own with --data");
  MeasureOptions options;
  options.data.path = scratch.write("texts.csv", "text\nfine\ndull\n").string();
  Notices notices;
  const Dataset data = data_for(options, model, notices.observer());
  EXPECT_FALSE(data.labelled);
  EXPECT_EQ(data.examples.size(), 2U);
  EXPECT_THAT(notices.texts,
              testing::Contains(options.data.path + ": no labels: only agreement with full depth is measured; "
                                                    "--label-column names a column of labels"));
  EXPECT_EQ(error_of([&] { (void)baseline_for(options.data.path, options, {}, {}); }).code(), Code::usage);
}

TEST(Measure, DistinguishesTracesFromWeights) {
  const Scratch scratch;
  const std::string file = scratch.write("x.safetensors", "").string();
  EXPECT_TRUE(is_trace_file(file));
  EXPECT_FALSE(is_trace_file(scratch.write("x.bin", "").string()));
  EXPECT_FALSE(is_trace_file(scratch.path().string()));
  (void)scratch.write("config.json", "{}");
  EXPECT_FALSE(is_trace_file(file));
  write_trace(file, random_trace({.rows = 3}));
  EXPECT_TRUE(is_trace_file(file)) << "it says so itself, whatever is beside it";
  write_safetensors(file, {}, {{"format", "pt"}});
  EXPECT_FALSE(is_trace_file(file));
}

}  // namespace
}  // namespace exeunt
