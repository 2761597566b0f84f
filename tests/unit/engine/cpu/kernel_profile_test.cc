// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/kernel_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/json.h"
#include "exeunt/engine/cpu/register_peak.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {
namespace {

TEST(KernelProfile, RecordsEveryCallWithoutChangingResults) {
  const Checkpoint model = Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert");
  const Encoding text{.ids = {1, 2, 3, 4, 5}, .types = {0, 0, 0, 0, 0}, .offsets = {}, .truncated = false};
  KernelProfile profile(choose_kernels());
  std::vector<float> plain, profiled;
  {
    Engine engine(model, {.precision = Precision::fp32, .threads = 1});
    plain = engine.answer({&text, 1}).front().logits;
    Engine watched(model, {.precision = Precision::fp32, .threads = 1, .kernels = &profile.table()});
    profile.clear();
    profiled = watched.answer({&text, 1}).front().logits;
  }
  EXPECT_EQ(plain, profiled);
  const Json json = parse_json(profile.chrome_trace(), "trace");
  const auto calls = [&](std::string_view name) {
    return std::count_if(json["traceEvents"].begin(), json["traceEvents"].end(),
                         [&](const Json& event) { return event["name"] == name; });
  };
  EXPECT_GE(calls("attend"), model.spec().layers);
  EXPECT_GE(calls("normalize"), 2 * model.spec().layers);
  EXPECT_GE(calls("multiply"), 4 * model.spec().layers);
  for (const Json& event : json["traceEvents"]) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_GE(event["ts"].get<double>(), 0);
  }
  profile.clear();
  EXPECT_TRUE(parse_json(profile.chrome_trace(), "trace")["traceEvents"].empty());
}

TEST(KernelProfile, RejectsSecondProfileAtOnce) {
  const KernelProfile first(choose_kernels());
  EXPECT_THROW(KernelProfile{choose_kernels()}, std::logic_error);
}

TEST(RegisterPeak, IsKnownForTheBestTable) {
  const Kernels& best = choose_kernels();
  if (best.name == "generic") GTEST_SKIP() << "not measured for generic code";
  for (const Precision precision : {Precision::fp32, Precision::int8})
    EXPECT_GT(register_peak(best.name, precision), 0);
}

TEST(RegisterPeak, RejectsProductAbovePeak) {
  EXPECT_EQ(share_of_peak(5e9, 10e9), 0.5);
  EXPECT_EQ(share_of_peak(10e9, 10e9), 1);
  EXPECT_THROW((void)share_of_peak(10.1e9, 10e9), std::logic_error);
}

}  // namespace
}  // namespace exeunt
