// SPDX-License-Identifier: Apache-2.0
// The stub for builds without CUDA.
#include "exeunt/base/error.h"
#include "exeunt/runtime/cuda/cuda.h"

namespace exeunt {
namespace {

constexpr const char* kAbsent = "this build has no CUDA backend";

}  // namespace

bool cuda_built() noexcept {
  return false;
}

CudaDevices cuda_devices() {
  return {.devices = {}, .reason = kAbsent};
}

void cuda_scale(std::span<const float>, float, std::span<float>) {
  throw Error(Code::resources, kAbsent, "build with -DEXEUNT_CUDA=ON on a machine that has nvcc");
}

}  // namespace exeunt
