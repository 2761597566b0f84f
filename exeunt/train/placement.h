// SPDX-License-Identifier: Apache-2.0
// Where a run computes and how: its device, its precision, and whether its results repeat.
#pragma once

#include <string>

#include "exeunt/train/torch.h"

namespace exeunt::nn {

// `name` is that of the setting: auto, cpu or cuda; `place` the number of this process on this machine. Throws Error
// (resources) where there is no GPU to use.
[[nodiscard]] torch::Device choose_device(const std::string& name, int place);

// "bf16" or "fp32", as the setting (auto, fp32, bf16) means on this device: bf16 by itself where a GPU has it. Throws
// Error (usage) for bf16 on the CPU.
[[nodiscard]] std::string precision_on(const torch::Device& device, const std::string& setting);

// From now on the operations of a GPU repeat bit for bit, or no longer: without it, some of them add in the order in
// which threads arrive. Before the first one, for cuBLAS is told by a variable that it reads once. A CPU's always do.
void repeat_bit_for_bit(const torch::Device& device, bool on);

}  // namespace exeunt::nn
