// SPDX-License-Identifier: Apache-2.0
// All the memory a thread needs to run a pack of texts through a model, allocated once for the largest pack. A small
// one touches only the beginning of each part.
#pragma once

#include "exeunt/engine/cpu/packed_model.h"
#include "exeunt/engine/cpu/region.h"

namespace exeunt {

class MemoryParts;

// The most texts of one pack.
inline constexpr int kMaxPackTexts = 64;

// d = hidden, f = inner, e = embedding, w = exit width, R = rows, N = kMaxPackTexts.
struct Workspace {
  // For packs of up to `pack_rows` rows, and for the longest text.
  Workspace(const PackedModel& model, int pack_rows);

  [[nodiscard]] size_t bytes() const noexcept { return region_.size(); }

  int capacity = 0;           // R
  float* rows = nullptr;      // [R, d] the residual stream
  float* embedded = nullptr;  // [R, e] before a projection; null without one
  std::byte* qkv = nullptr;   // [R, 3d] fp32 or bf16: query, key, value side by side
  float* context = nullptr;   // [R, d], if `output` is int8
  float* inner = nullptr;     // [R, f], if `ffn2` is int8 or has a gate
  float* normed = nullptr;    // [R, d], of the final norm; its first row is scratch of the others
  std::byte *layer_input = nullptr, *context_input = nullptr, *ffn1_input = nullptr, *ffn2_input = nullptr;  // Operands
  std::byte* project_input = nullptr;
  std::byte* attention = nullptr;  // scratch of the attention kernel
  // Of one head, for attention by distances (T = the longest text, B = kAttentionBlock, D = rows of distances).
  std::byte* head_rows = nullptr;                              // Operand of B rows
  float *key_distances = nullptr, *query_distances = nullptr;  // [T, D] and [B, D]
  float* bias = nullptr;                                       // [B, T]

  // Row 0 of each text, when it is computed ahead of the others.
  float* first_rows = nullptr;       // [N, d]
  std::byte* first_query = nullptr;  // [N, 3d], of which only the queries are used
  std::byte* first_input = nullptr;  // Operand

  float* exit_input = nullptr;      // [N, 2d] what poolers read
  float* scores = nullptr;          // [R] of a reader
  float* pooled = nullptr;          // [N, w]
  float* hidden = nullptr;          // [inner of the classifier]
  std::byte* head_input = nullptr;  // Operand of any head
  float* logits = nullptr;          // [N, outputs]
  float* lte = nullptr;             // [N]
  float* ramp = nullptr;            // [outputs] of the last layer's ramp

 private:
  void place(const PackedModel& model, MemoryParts& parts);

  Region region_ = {};
};

}  // namespace exeunt
