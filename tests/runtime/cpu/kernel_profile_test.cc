// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/kernel_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/json.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/runtime/cpu/register_peak.h"
#include "exeunt/runtime/engine.h"

namespace exeunt {
namespace {

TEST(KernelProfile, NotesEveryCallAndChangesNoBit) {
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

TEST(KernelProfile, ASecondOneAtTheSameTimeIsOurBug) {
  const KernelProfile first(choose_kernels());
  EXPECT_THROW(KernelProfile{choose_kernels()}, std::logic_error);
}

TEST(RegisterPeak, IsKnownForTheBestTableAndRisesWithLowerPrecision) {
  const Kernels& best = choose_kernels();
  const double fp32 = register_peak(best.name, Precision::fp32), int8 = register_peak(best.name, Precision::int8);
  if (fp32 == 0 || int8 == 0) GTEST_SKIP() << best.name;
  EXPECT_GT(fp32, 1e9);
  EXPECT_GT(int8, fp32);
}

}  // namespace
}  // namespace exeunt
