// SPDX-License-Identifier: Apache-2.0
// LibTorch's devices and global state, and every difference between LibTorch 1.13 (Debian, CPU) and 2.11 (CUDA) that
// the rest of this folder would meet.
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

[[nodiscard]] std::string version();  // "1.13.1"
[[nodiscard]] int gpus();             // that LibTorch can use; 0 without CUDA

// `name` is that of the setting: auto, cpu or cuda; `rank` the number of this process on this machine, which takes the
// GPU of that number, modulo theirs. Throws Error (resources) where there is no GPU to use.
[[nodiscard]] torch::Device choose_device(const std::string& name, int rank);

// "bf16" or "fp32", as the setting (auto, fp32, bf16) means on this device: bf16 by itself where a GPU has it. Throws
// Error (usage) for bf16 on the CPU.
[[nodiscard]] std::string precision_on(const torch::Device& device, const std::string& setting);

// From now on the operations of a GPU repeat bit for bit, or no longer: without it, some of them add in the order in
// which threads arrive. Before the first one, because cuBLAS reads a variable once. A CPU's always do.
void repeat_bit_for_bit(const torch::Device& device, bool on);

}  // namespace exeunt::nn::compat
