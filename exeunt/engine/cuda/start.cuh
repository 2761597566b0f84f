// SPDX-License-Identifier: Apache-2.0
// Starting kernels. One that was started by start() may begin while the kernel before it ends (programmatic dependent
// launch): it must call wait_for_previous() before it reads or writes anything but constants, in every thread, since
// the kernel after it relies on that, too. let_next_begin() says that the next one may begin.
#pragma once

#include <string_view>
#include <utility>

#include <cuda_runtime.h>

#include "exeunt/engine/cuda/gpu_resources.h"

namespace exeunt::cuda {

__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Kernels of few rows leave processors idle, where the next one can begin; with many, it only takes room from the one
// before.
[[nodiscard]] constexpr bool few_rows(int rows) noexcept {
  return rows <= 512;
}

struct Grid {
  dim3 blocks;
  unsigned threads;
  size_t shared = 0;  // bytes of dynamic shared memory
  Stream stream = nullptr;
  unsigned cluster = 1;  // blocks that share their shared memory
  bool early = false;    // may begin while the kernel before it ends
};

template <class... Wanted, class... Given>
void start(std::string_view what, void (*kernel)(Wanted...), const Grid& grid, Given&&... given) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (grid.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = grid.cluster;
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (grid.early && may_begin_early(grid.stream)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.shared;
  config.stream = grid.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, std::forward<Given>(given)...);
  if (status != cudaSuccess) throw_cuda_failure(what, cudaGetErrorString(status));
}

// Raises how much dynamic shared memory a kernel may have, on the GPU that this thread uses.
template <class... Wanted>
void allow_shared(std::string_view what, void (*kernel)(Wanted...), size_t bytes) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) throw_cuda_failure(what, cudaGetErrorString(status));
}

}  // namespace exeunt::cuda
