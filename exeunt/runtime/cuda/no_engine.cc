// SPDX-License-Identifier: Apache-2.0
// Until the engine is here, a build with CUDA lists GPUs and runs nothing on them.
#include "exeunt/base/error.h"
#include "exeunt/runtime/backend.h"
#include "exeunt/runtime/cuda/cuda.h"

namespace exeunt {

EngineTraits cuda_traits(const Device& device) {
  const CudaDevice gpu = cuda_devices().devices.at(static_cast<size_t>(device.index));
  return {
      .name = fmt::format("cuda/sm_{}{}", gpu.major, gpu.minor), .numerics = 1, .bf16 = gpu.major >= 8, .int8 = false};
}

std::unique_ptr<Backend> make_cuda_backend(const Checkpoint&, const EngineOptions& options) {
  throw Error(Code::resources, fmt::format("device {}: models do not run on a GPU yet", str(options.device)),
              "run with --device cpu");
}

}  // namespace exeunt
