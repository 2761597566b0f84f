// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/measure.h"

#include "exeunt/base/safetensors.h"
#include "tests/unit/policy/traces.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

TEST(Measure, CheckpointsOfARunComeInTheOrderOfTheirSteps) {
  const Scratch scratch;
  for (const char* name : {"checkpoint-1000", "checkpoint-20", "checkpoint-3", "checkpoint-x", "checkpoint-", "logs"})
    std::filesystem::create_directories(scratch.path() / name);
  (void)scratch.write("checkpoint-7", "a file");
  std::vector<std::string> names;
  for (const auto& path : checkpoints_in(scratch.path())) names.push_back(path.filename().string());
  EXPECT_THAT(names, ElementsAre("checkpoint-3", "checkpoint-20", "checkpoint-1000"));
  EXPECT_TRUE(checkpoints_in(scratch.path() / "nowhere").empty());
}

TEST(Measure, ATraceIsAFileThatIsNoModelsWeights) {
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
