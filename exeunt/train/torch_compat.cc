// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/torch_compat.h"

#include <cmath>
#include <mutex>

#include <ATen/autocast_mode.h>
#include <torch/version.h>

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

bool has_cuda() {
  return torch::cuda::is_available();
}

}  // namespace exeunt::nn::compat
