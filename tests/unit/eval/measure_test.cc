// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/measure.h"

#include "exeunt/base/safetensors.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

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
