// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs. cuda.cu implements this if the build has nvcc, stub.cc otherwise; the rest of the program sees no
// difference. No GPU or no driver is a normal result: an empty list and a reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace exeunt {

struct CudaDevice {
  int index = 0;
  std::string name = {};
  int major = 0, minor = 0;  // compute capability
  int processors = 0;
  uint64_t bytes = 0;  // of memory
};

struct CudaDevices {
  std::vector<CudaDevice> devices = {};
  std::string reason = {};  // why there is none; empty if there is one
};

[[nodiscard]] bool cuda_built() noexcept;
[[nodiscard]] CudaDevices cuda_devices();

// out[i] = in[i] · factor, computed on the first device: shows that code built here runs there.
// Throws Error (resources) if there is no device; without the CUDA backend the error names the option to build it.
void cuda_scale(std::span<const float> in, float factor, std::span<float> out);

}  // namespace exeunt
