// SPDX-License-Identifier: Apache-2.0
// The stub is tested in every build, also where the real backend is linked into the rest.
#include "exeunt/engine/backend.h"
#include "exeunt/engine/cuda/cuda.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;

TEST(CudaStub, ErrorNamesBuildOption) {
  const Error error = error_of([&] { (void)cuda_traits({}); });
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_THAT(error.what(), HasSubstr("no CUDA backend"));
  EXPECT_THAT(error.hint(), HasSubstr("-DEXEUNT_CUDA=ON"));
}

TEST(CudaStub, ListsNoDevicesWithReason) {
  EXPECT_FALSE(cuda_built());
  EXPECT_TRUE(cuda_devices().devices.empty());
  EXPECT_THAT(cuda_devices().reason, HasSubstr("no CUDA backend"));
}

}  // namespace
}  // namespace exeunt
