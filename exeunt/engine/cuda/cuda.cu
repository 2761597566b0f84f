// SPDX-License-Identifier: Apache-2.0
// The CUDA implementation. Only this folder includes CUDA's headers; the runtime is linked statically and finds the
// driver at first use, so the program starts on machines without one.
#include <cuda_runtime.h>

#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/cuda/failure.h"

namespace exeunt {
namespace {

void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw_cuda_failure(what, cudaGetErrorString(status));
}

// 13000 → "13.0"
std::string version_text(int version) {
  return version <= 0 ? std::string() : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool cuda_built() noexcept {
  return true;
}

CudaDevices cuda_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  CudaDevices found;
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) found.driver = version_text(driver);
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) found.runtime = version_text(runtime);
  if (status != cudaSuccess || count == 0) {
    found.reason = status == cudaSuccess ? "no GPU was found" : cudaGetErrorString(status);
    if (status == cudaErrorInsufficientDriver && driver > 0) {
      found.reason += " (the driver supports " + found.driver + ", this build has " + found.runtime + ")";
    }
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    must(cudaGetDeviceProperties(&properties, i), "asking for the GPU's properties");
    CudaDevice device;
    device.index = i;
    device.name = properties.name;
    device.major = properties.major;
    device.minor = properties.minor;
    device.processors = properties.multiProcessorCount;
    device.bytes = properties.totalGlobalMem;
    found.devices.push_back(device);
  }
  return found;
}

}  // namespace exeunt
