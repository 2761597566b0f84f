// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/torch_compat.h"

#include <cmath>
#include <mutex>
#include <optional>

#include <ATen/autocast_mode.h>
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

namespace {

#if TORCH_VERSION_MAJOR >= 2
std::optional<torch::Tensor> given(const torch::Tensor& tensor) {
  return tensor.defined() ? std::optional<torch::Tensor>(tensor) : std::nullopt;
}
#endif

// In plain operations: scores, shares, and the backward pass through them.
AttentionTape attend_plainly(const torch::Tensor& qkv, const torch::Tensor& mask, double dropout) {
  check(dropout == 0, "only a GPU drops attention here");
  const auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
  const double scale = 1.0 / std::sqrt(static_cast<double>(qkv.size(-1)));
  const torch::Tensor shares = torch::softmax(torch::matmul(part(0), part(1).transpose(-2, -1)) * scale + mask, -1);
  return {torch::matmul(shares, part(2)).transpose(1, 2).contiguous(), shares, {}, {}, 0};
}

torch::Tensor attend_plainly_back(const torch::Tensor& gradient, const torch::Tensor& qkv, const AttentionTape& tape) {
  const auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
  const double scale = 1.0 / std::sqrt(static_cast<double>(qkv.size(-1)));
  const torch::Tensor& shares = tape.sums;
  const torch::Tensor out = gradient.transpose(1, 2);
  const torch::Tensor along = torch::matmul(out, part(2).transpose(-2, -1));
  const torch::Tensor scores = shares * (along - (shares * along).sum(-1, true)) * scale;
  const torch::Tensor query = torch::matmul(scores, part(1)), key = torch::matmul(scores.transpose(-2, -1), part(0)),
                      value = torch::matmul(shares.transpose(-2, -1), out);
  return torch::stack({query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)}, 2);
}

}  // namespace

torch::Tensor attention_mask(const torch::Tensor& mask, int64_t heads) {
  return mask.is_cuda() ? mask.expand({-1, heads, mask.size(-1), -1}) : mask;
}

// The memory-efficient kernel and not cuDNN's, which is no faster here and with which two of seventy runs ended in a
// loss that was no number.
AttentionTape attend_forward(const torch::Tensor& qkv, const AttentionBounds& bounds, double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  if (qkv.is_cuda()) {
    const std::optional<torch::Tensor> cuts = given(bounds.cuts);
    const std::optional<int64_t> longest = cuts ? std::optional<int64_t>(bounds.longest) : std::nullopt;
    const auto found =
        at::_efficient_attention_forward(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), given(bounds.mask), cuts,
                                         cuts, longest, longest, dropout, 0, true);
    return {std::get<0>(found), std::get<1>(found), std::get<2>(found), std::get<3>(found), dropout};
  }
#endif
  return attend_plainly(qkv, bounds.mask, dropout);
}

torch::Tensor attend_backward(const torch::Tensor& gradient, const torch::Tensor& qkv, const AttentionBounds& bounds,
                              const AttentionTape& tape) {
#if TORCH_VERSION_MAJOR >= 2
  if (qkv.is_cuda()) {
    const std::optional<torch::Tensor> cuts = given(bounds.cuts);
    const int64_t tokens = cuts ? bounds.longest : qkv.size(1);
    const auto found = at::_efficient_attention_backward(
        gradient, qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), given(bounds.mask), tape.out, cuts, cuts,
        tokens, tokens, tape.sums, tape.dropout, tape.seed, tape.offset, 0, false, std::nullopt,
        // Parts of the keys are added in the order in which they are done, unless there is one part.
        at::globalContext().deterministicAlgorithms() ? std::optional<int64_t>(1) : std::nullopt, std::nullopt,
        /*shared_storage_dqdkdv=*/true);
    // The three lie in one piece of memory, side by side for each token.
    return std::get<0>(found).as_strided(qkv.sizes(), qkv.strides());
  }
#else
  (void)bounds;
#endif
  return attend_plainly_back(gradient, qkv, tape);
}

torch::Tensor product_fp32(const torch::Tensor& a, const torch::Tensor& b) {
#if TORCH_VERSION_MAJOR >= 2
  if (a.is_cuda() && a.scalar_type() != torch::kFloat) return at::mm(a, b, torch::kFloat);
#endif
  return torch::mm(a, b).to(torch::kFloat);
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

void set_deterministic(bool on) {
  at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
#if TORCH_VERSION_MAJOR >= 2
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // nobody reads such memory; filling takes time
#endif
}

std::string version() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

bool has_cuda() {
  return torch::cuda::is_available();
}

}  // namespace exeunt::nn::compat
