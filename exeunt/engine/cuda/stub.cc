// SPDX-License-Identifier: Apache-2.0
// The stub for builds without CUDA.
#include "exeunt/base/error.h"
#include "exeunt/engine/backend.h"
#include "exeunt/engine/cuda/cuda.h"

namespace exeunt {
namespace {

constexpr const char* kAbsent = "this build has no CUDA backend";

[[noreturn]] void absent() {
  throw Error(Code::resources, kAbsent, "build with -DEXEUNT_CUDA=ON on a machine that has nvcc");
}

}  // namespace

bool cuda_built() noexcept {
  return false;
}

CudaDevices cuda_devices() {
  return {.reason = kAbsent};
}

EngineTraits cuda_traits(const Device&) {
  absent();
}

std::unique_ptr<Backend> make_cuda_backend(const Checkpoint&, const EngineOptions&) {
  absent();
}

}  // namespace exeunt
