// SPDX-License-Identifier: Apache-2.0
// All the memory a thread needs to run one text through a model, allocated once for the longest text. A short text
// touches only the beginning of each part.
#pragma once

#include "exeunt/runtime/cpu/packed_model.h"
#include "exeunt/runtime/cpu/region.h"

namespace exeunt {

// d = hidden, f = inner, e = embedding, w = exit width, T = the longest text.
struct Workspace {
  explicit Workspace(const PackedModel& model);

  float* rows = nullptr;       // [T, d] the residual stream
  float* first_row = nullptr;  // [d] row 0 alone, when it is computed ahead of the others
  float* embedded = nullptr;   // [T, e] before a projection; null without one
  std::byte* qkv = nullptr;    // [T, 3d] fp32 or bf16: query, key, value side by side
  float* context = nullptr;    // [T, d], if `output` is int8
  float* inner = nullptr;      // [T, f], if `ffn2` is int8
  std::byte *layer_input = nullptr, *context_input = nullptr, *ffn1_input = nullptr, *ffn2_input = nullptr;  // Operands
  std::byte* project_input = nullptr;
  std::byte* attention = nullptr;  // scratch of the attention kernel

  float* exit_input = nullptr;                      // [2d] what a pooler reads
  float* scores = nullptr;                          // [T] of a reader
  float* pooled = nullptr;                          // [w]
  float* hidden = nullptr;                          // [inner of the classifier]
  float* lte = nullptr;                             // [1]
  std::byte* head_input = nullptr;                  // Operand of one row, of any head
  float* logits = nullptr;                          // [outputs]
  float* best = nullptr;                            // [outputs] of the deepest exit so far
  float *state = nullptr, *state_before = nullptr;  // [state_floats] of a policy, and at the previous exit
  size_t state_floats = 0;

 private:
  Region region_;
};

}  // namespace exeunt
