// SPDX-License-Identifier: Apache-2.0
// The CUDA implementation. Only this folder includes CUDA's headers; the runtime is linked statically and finds the
// driver at first use, so the program starts on machines without one.
#include <cuda_runtime.h>

#include "exeunt/runtime/cuda/cuda.h"
#include "exeunt/runtime/cuda/failure.h"

namespace exeunt {
namespace {

void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw_cuda_failure(what, cudaGetErrorString(status));
}

// Device memory, released by the destructor.
class DeviceFloats {
 public:
  explicit DeviceFloats(size_t count) { must(cudaMalloc(&data_, count * sizeof(float)), "allocating GPU memory"); }
  ~DeviceFloats() { cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  float* get() const { return data_; }

 private:
  float* data_ = nullptr;
};

__global__ void scale(const float* in, float factor, float* out, size_t count) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) out[i] = in[i] * factor;
}

}  // namespace

bool cuda_built() noexcept {
  return true;
}

CudaDevices cuda_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  CudaDevices found;
  if (status != cudaSuccess || count == 0) {
    found.reason = status == cudaSuccess ? "no GPU was found" : cudaGetErrorString(status);
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

void cuda_scale(std::span<const float> in, float factor, std::span<float> out) {
  const CudaDevices found = cuda_devices();
  if (found.devices.empty()) throw_cuda_failure("looking for a GPU", found.reason);
  if (out.size() < in.size()) throw_cuda_failure("scaling on the GPU", "the output is shorter than the input");
  if (in.empty()) return;
  const size_t bytes = in.size() * sizeof(float);
  const DeviceFloats from(in.size()), to(in.size());
  must(cudaMemcpy(from.get(), in.data(), bytes, cudaMemcpyHostToDevice), "copying to the GPU");
  constexpr unsigned kThreads = 256;
  scale<<<static_cast<unsigned>((in.size() + kThreads - 1) / kThreads), kThreads>>>(from.get(), factor, to.get(),
                                                                                    in.size());
  must(cudaGetLastError(), "starting a GPU kernel");
  must(cudaMemcpy(out.data(), to.get(), bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
}

}  // namespace exeunt
