// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs. gpu_resources.cu and cuda_backend.cc implement this if the build has nvcc, stub.cc otherwise; the rest
// of the program sees no difference. No GPU or no driver is a normal result: an empty list and a reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace exeunt {

class Backend;
class Checkpoint;
struct Device;
struct EngineOptions;
struct EngineTraits;

struct CudaDevice {
  int index = 0;
  std::string name = {};
  int major = 0, minor = 0;  // compute capability
  int processors = 0;
  uint64_t bytes = 0;  // of memory
};

struct CudaDevices {
  std::vector<CudaDevice> devices = {};
  std::string reason = {};                // why there is none; empty if there is one
  std::string driver = {}, runtime = {};  // the CUDA versions that the driver supports and that this build has: "13.0"
};

[[nodiscard]] bool cuda_built() noexcept;
[[nodiscard]] CudaDevices cuda_devices();

// Of a GPU that is there (find_device). Throws Error (resources).
[[nodiscard]] EngineTraits cuda_traits(const Device& device);
// The backend of an engine (backend.h) on the GPU options.device, which is there. Throws Error: resources if the model
// does not fit into its memory, without CUDA with the option to build it.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace exeunt
