// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/model_policy.h"

#include "exeunt/base/files.h"
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/certify/small_model.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A trace made before precision.json changed says nothing of the model as it runs now.
TEST(ModelPolicy, RejectsTraceOfAnotherPrecisionMap) {
  const SmallModel model;
  model.keep_wider({{"layer.1.ffn2", Precision::fp32}});
  const ExitTrace trace = trace_model(model.options(), quiet());
  EXPECT_EQ(trace.info.precision_map, precision_map_sha256({{"layer.1.ffn2", Precision::fp32}}));
  const std::string stored = (model.scratch.path() / "int8.safetensors").string();
  write_trace(stored, trace);
  CalibrateOptions calibrate{.run = model.options()};
  calibrate.run.data.path.clear();
  calibrate.run.trace = stored;
  calibrate.plan.max_drops = {0.2};
  EXPECT_NO_THROW((void)calibrate_model(calibrate, quiet()));
  const PolicyFile file = read_policy_file(model.folder / "policy.json");
  ASSERT_EQ(file.entries.size(), 1U);
  EXPECT_EQ(file.entries[0].precision_map, trace.info.precision_map);
  EXPECT_EQ(file.entries[0].engine, trace.info.engine);
  EXPECT_EQ(file.entries[0].certificate->max_length, trace.info.max_length);
  EXPECT_EQ(file.entries[0].certificate->tokenizer, trace.info.tokenizer);
  EXPECT_EQ(file.entries[0].certificate->last_head, LastHead::final);

  model.keep_wider({});
  const Error error = error_of([&] { (void)calibrate_model(calibrate, quiet()); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("another precision.json"));
  // Nor without the model, which then has no say: the entry names the map that was measured.
  CalibrateOptions alone{.run = {.model = stored}, .plan = calibrate.plan};
  alone.out = (model.folder / "policy.json").string();
  (void)calibrate_model(alone, quiet());
  EXPECT_EQ(read_policy_file(alone.out).entries[0].precision_map, trace.info.precision_map);
}

// A policy.json is read before it is changed, long after its folder was looked at.
TEST(ModelPolicy, RejectsPolicySymlinkOutsideFolder) {
  const Scratch scratch;
  const fs::path folder = scratch.path() / "model", others = scratch.path() / "others.json";
  fs::create_directory(folder);
  write_atomically(others, policy_file_text({.weights = std::string(64, 'a'), .default_precision = "fp32"}));
  fs::create_symlink("../others.json", folder / "policy.json");
  const auto read = [&] { return policies_at(folder / "policy.json", std::string(64, 'a'), "int8"); };
  EXPECT_THAT(error_of([&] { (void)read(); }).what(), HasSubstr("outside the model folder"));
  fs::remove(folder / "policy.json");
  EXPECT_EQ(read().default_precision, "int8");  // there is none
  fs::copy(others, folder / "policy.json");
  EXPECT_EQ(read().default_precision, "fp32");
}

// Traces of version 1 do not say with which precision.json they were made.
TEST(ModelPolicy, RejectsTraceWithoutPrecisionMap) {
  const SmallModel model;
  ExitTrace trace = trace_model(model.options(), quiet());
  EXPECT_NO_THROW(require_policy_precision(trace));
  trace.info.precision_map.reset();
  EXPECT_EQ(error_of([&] { require_policy_precision(trace); }).code(), Code::bad_file);
  trace.info.precision = "fp32";
  EXPECT_NO_THROW(require_policy_precision(trace));
}

// Rows are known by their tokens, so that repeats can be counted.
TEST(ModelPolicy, TraceHashesEqualRowsAlike) {
  const SmallModel model;
  const Checkpoint checkpoint = Checkpoint::open(model.folder);
  const auto tokenizer = load_tokenizer(model.folder);
  UserColumns columns;
  columns.format = DataFormat::csv;
  columns.label.clear();
  const Dataset data = parse_user_data("text\na film\nbad\na  film\n", "x.csv", columns);
  const ExitTrace trace = make_trace(checkpoint, *tokenizer, data, {.precision = Precision::fp32});
  ASSERT_EQ(trace.row_hash.size(), 3U);
  EXPECT_EQ(trace.row_hash[0], trace.row_hash[2]);
  EXPECT_NE(trace.row_hash[0], trace.row_hash[1]);
  EXPECT_EQ(trace.info.precision_map, "");
  EXPECT_EQ(trace.info.numerics, kNumerics);
}

}  // namespace
}  // namespace exeunt
