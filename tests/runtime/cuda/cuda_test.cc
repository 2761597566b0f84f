// SPDX-License-Identifier: Apache-2.0
// The CUDA door as this build has it: with a GPU, without one, or as the stub.
#include "exeunt/runtime/cuda/cuda.h"

#include <numeric>

#include "tests/scratch.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;

TEST(Cuda, EitherHasDevicesOrSaysWhyNot) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.devices.empty(), !found.reason.empty());
  for (const CudaDevice& device : found.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.major, 7);
    EXPECT_GT(device.bytes, 0U);
    EXPECT_GT(device.processors, 0);
  }
}

TEST(Cuda, ScalesOnTheDeviceOrFailsWithOneError) {
  std::vector<float> in(1000), out(1000, -1.0F);
  std::iota(in.begin(), in.end(), 1.0F);
  if (cuda_devices().devices.empty()) {
    const Error error = error_of([&] { cuda_scale(in, 2, out); });
    EXPECT_EQ(error.code(), Code::resources);
    EXPECT_THAT(error.what(), HasSubstr("CUDA"));
    EXPECT_EQ(out[0], -1.0F);
    return;
  }
  cuda_scale(in, 2, out);
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], 2 * in[i]);
  EXPECT_THAT(error_of([&] { cuda_scale(in, 2, std::span(out).first(10)); }).what(), HasSubstr("shorter"));
}

}  // namespace
}  // namespace exeunt
