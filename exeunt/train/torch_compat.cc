// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/torch_compat.h"

#include <cmath>
#include <cstdlib>
#include <mutex>

#include <ATen/autocast_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include "exeunt/base/error.h"

namespace exeunt::nn::compat {
namespace {

bool autocast_on() {
#if TORCH_VERSION_MAJOR >= 2
  return at::autocast::is_autocast_enabled(at::kCUDA);
#else
  return at::autocast::is_enabled();
#endif
}

void set_autocast(bool on) {
#if TORCH_VERSION_MAJOR >= 2
  at::autocast::set_autocast_enabled(at::kCUDA, on);
  at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
#else
  at::autocast::set_enabled(on);
  at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
#endif
}

at::Generator generator_of(const torch::Device& device) {
  return at::globalContext().defaultGenerator(device);
}

}  // namespace

torch::Tensor attend(const Attention& input) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(input.query, input.key, input.value, input.mask.to(input.query.dtype()),
                                          input.dropout, false);
#else
  const double scale = 1.0 / std::sqrt(static_cast<double>(input.query.size(-1)));
  const torch::Tensor scores = torch::matmul(input.query, input.key.transpose(-2, -1)) * scale + input.mask;
  torch::Tensor shares = torch::softmax(scores, -1);
  if (input.dropout > 0) shares = torch::dropout(shares, input.dropout, true);
  return torch::matmul(shares, input.value);
#endif
}

Autocast::Autocast(bool on) : before_(autocast_on()) {
  if (on != before_) set_autocast(on);
}

Autocast::~Autocast() {
  if (autocast_on() == before_) return;
  if (!before_) at::autocast::clear_cache();
  set_autocast(before_);
}

torch::Tensor random_state(const torch::Device& device) {
  at::Generator generator = generator_of(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const torch::Device& device, const torch::Tensor& state) {
  at::Generator generator = generator_of(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

std::string version() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

int gpus() {
  return torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
}

torch::Device choose_device(const std::string& name, int rank) {
  const int count = name == "cpu" ? 0 : gpus();
  if (count == 0 && name != "cuda") return torch::kCPU;
  if (count == 0) {
    throw Error(Code::resources, "no CUDA device is available", "leave --device out to train on the CPU");
  }
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(rank % count));
  c10::impl::VirtualGuardImpl(torch::kCUDA).setDevice(device);
#if TORCH_VERSION_MAJOR >= 2
  // cuDNN's attention is no faster here, and with it two of seventy runs ended in a loss that was no number.
  at::globalContext().setSDPUseCuDNN(false);
#endif
  return device;
}

std::string precision_on(const torch::Device& device, const std::string& setting) {
  // The question LibTorch's interface without CUDA headers answers: compute capability 8, for the current GPU.
  if (setting == "auto") {
    return device.is_cuda() && at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8() ? "bf16" : "fp32";
  }
  if (setting == "bf16" && !device.is_cuda()) {
    throw Error(Code::usage, "--precision bf16 needs CUDA", "train in fp32 on the CPU");
  }
  return setting;
}

void repeat_bit_for_bit(const torch::Device& device, bool on) {
  if (!device.is_cuda()) return;
  if (on) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // the user's own value counts
  at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
#if TORCH_VERSION_MAJOR >= 2
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // nobody reads such memory; filling takes time
#endif
}

}  // namespace exeunt::nn::compat
