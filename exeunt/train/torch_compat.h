// SPDX-License-Identifier: Apache-2.0
// Every difference between LibTorch 1.13 (Debian, CPU) and 2.11 (CUDA) that the rest of this folder would meet.
#pragma once

#include <string>

#include "exeunt/train/torch.h"

namespace exeunt::nn::compat {

// softmax(Q Kᵀ / √d + mask) V, with dropout on the probabilities. All [rows, heads, tokens, d]; mask [rows, 1, 1,
// tokens].
struct Attention {
  torch::Tensor query, key, value, mask;
  double dropout = 0;
};
[[nodiscard]] torch::Tensor attend(const Attention& input);

// The same with a backward pass of its own, for rows as one product returns them: qkv and its gradient [rows, tokens,
// 3, heads, d], out and its gradient [rows, tokens, heads, d].
struct AttentionBounds {
  torch::Tensor mask = {};  // from attention_mask(); not needed on a GPU where there are cuts
  torch::Tensor cuts = {};  // [texts + 1] int32: where each of the texts in one long row begins, and the last ends
  int64_t longest = 0;      // tokens of such a text at most
};
struct AttentionTape {
  torch::Tensor out, sums, seed, offset;  // sums of exponentials and where the random numbers began
  double dropout = 0;
};
[[nodiscard]] torch::Tensor attention_mask(const torch::Tensor& mask, int64_t heads);
[[nodiscard]] AttentionTape attend_forward(const torch::Tensor& qkv, const AttentionBounds& bounds, double dropout);
[[nodiscard]] torch::Tensor attend_backward(const torch::Tensor& gradient, const torch::Tensor& qkv,
                                            const AttentionBounds& bounds, const AttentionTape& tape);

// a · b with an fp32 result, whatever type both have.
[[nodiscard]] torch::Tensor product_fp32(const torch::Tensor& a, const torch::Tensor& b);

// While it lives, matrix products on CUDA run in bf16 (`on`) or in the type their inputs have (not `on`).
class Autocast {
 public:
  explicit Autocast(bool on);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

// The whole state of the random numbers that dropout draws on this device, as bytes.
[[nodiscard]] torch::Tensor random_state(const torch::Device& device);
void set_random_state(const torch::Device& device, const torch::Tensor& state);

// Operations that could add in any order take one that repeats, or fail.
void set_deterministic(bool on);

[[nodiscard]] std::string version();  // "1.13.1"
[[nodiscard]] bool has_cuda();        // built with CUDA, and a GPU answers

}  // namespace exeunt::nn::compat
