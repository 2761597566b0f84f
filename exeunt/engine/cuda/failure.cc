// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/error.h"
#include "exeunt/engine/cuda/gpu_resources.h"

namespace exeunt::cuda {

void throw_cuda_failure(std::string_view what, std::string_view reason) {
  throw Error(Code::resources, fmt::format("CUDA: {} failed: {}", what, reason));
}

void throw_cuda_memory(std::string_view what, size_t bytes, std::string_view reason) {
  throw Error(Code::resources,
              fmt::format("CUDA: no memory for {} ({} MB): {}", what, (bytes + 999999) / 1000000, reason),
              "free memory on the GPU, or run fewer models on it");
}

}  // namespace exeunt::cuda
