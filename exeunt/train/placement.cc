// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/placement.h"

#include <cstdlib>

#include "exeunt/base/error.h"
#include "exeunt/train/gpu.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {

torch::Device choose_device(const std::string& name, int place) {
  if (name == "cpu" || (name == "auto" && !compat::has_cuda())) return torch::kCPU;
  if (!compat::has_cuda()) {
    throw Error(Code::resources, "no CUDA device is available", "leave --device out to train on the CPU");
  }
  return {torch::kCUDA, gpu::use(place)};
}

std::string precision_on(const torch::Device& device, const std::string& setting) {
  if (setting == "auto") return device.is_cuda() && gpu::has_bf16(device.index()) ? "bf16" : "fp32";
  if (setting == "bf16" && !device.is_cuda()) {
    throw Error(Code::usage, "--precision bf16 needs CUDA", "train in fp32 on the CPU");
  }
  return setting;
}

void repeat_bit_for_bit(const torch::Device& device, bool on) {
  if (!device.is_cuda()) return;
  if (on) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // the user's own value counts
  compat::set_deterministic(on);
}

}  // namespace exeunt::nn
