// SPDX-License-Identifier: Apache-2.0
// The interface to CUDA as this build has it: with a GPU, without one, or as the stub.
#include "exeunt/engine/cuda/cuda.h"

#include "exeunt/engine/device.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Cuda, ListsDevicesOrReason) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.devices.empty(), !found.reason.empty());
  EXPECT_EQ(found.runtime.empty(), !cuda_built());
  for (const CudaDevice& device : found.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.major, 7);
    EXPECT_GT(device.bytes, 0U);
    EXPECT_GT(device.processors, 0);
  }
}

TEST(Cuda, EngineNamesDeviceOrErrorNamesReason) {
  const CudaDevices found = cuda_devices();
  const Device first = parse_device("cuda"), none = parse_device("cuda:4000");
  if (!found.devices.empty()) {
    EXPECT_THAT(engine_traits(first).name, StartsWith("cuda/sm_"));
    EXPECT_GT(engine_traits(first).numerics, 0);
    EXPECT_EQ(find_device(parse_device("auto")), first);
    EXPECT_THAT(error_of([&] { (void)find_device(none); }).what(), HasSubstr("device cuda:4000: this machine has "));
    return;
  }
  const Error error = error_of([&] { (void)engine_traits(first); });
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_THAT(error.what(), HasSubstr("device cuda:0: " + found.reason));
  EXPECT_THAT(error.hint(), HasSubstr("--device cpu"));
  EXPECT_EQ(find_device(parse_device("auto")), Device{});
}

}  // namespace
}  // namespace exeunt
