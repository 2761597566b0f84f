// SPDX-License-Identifier: Apache-2.0
// A few random models on every device that is here; device_soak runs them for as long as one likes.
#include "tests/unit/engine/device_soak.h"

#include <gtest/gtest.h>

#include "exeunt/engine/cuda/cuda.h"

namespace exeunt {
namespace {

class EveryDevice : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryDevice, ReplayMatchesLiveAnswersInAnyBatchAndCpuWithinTolerance) {
  if (GetParam() == "cuda" && cuda_devices().devices.empty()) GTEST_SKIP() << cuda_devices().reason;
  DeviceSoak soak(parse_device(GetParam()), 1);
  for (int n = 0; n < 12; ++n) soak.run_case();
  EXPECT_TRUE(soak.report().failures.empty()) << soak.report().failures.front();
  EXPECT_GT(soak.report().early, 0) << soak.report().text();
}

INSTANTIATE_TEST_SUITE_P(Here, EveryDevice, ::testing::Values("cpu", "cuda"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace exeunt
