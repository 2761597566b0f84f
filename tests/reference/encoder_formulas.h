// SPDX-License-Identifier: Apache-2.0
// The formulas of an encoder that only the reference needs, beside those of exeunt/engine/formulas.h: one plain fp32
// function each. Sums run from the first element to the last; rows are [rows, width], row-major, without padding.
#pragma once

#include <span>
#include <vector>

#include "exeunt/engine/formulas.h"
#include "exeunt/model/positions.h"

namespace exeunt {

[[nodiscard]] float gelu_new(float x) noexcept;  // its approximation by tanh
void activate(Activation activation, std::span<float> values) noexcept;
void add_to(std::span<float> sum, std::span<const float> other) noexcept;
void tanh_all(std::span<float> values) noexcept;

// p_i = exp(x_i − max x) / Σ exp(x_j − max x), in place.
void softmax(std::span<float> values) noexcept;

// Multi-head attention of one text: softmax(Q Kᵀ / √d_head) V per head, concatenated. All are [rows, hidden].
// DeBERTa's disentangled attention: the score of query i and key j is (q_i·k_j + q_i·K_r + k_j·Q_r) / √(3 d_head),
// where r is the bucket of the distance i − j, and K and Q, [2 · buckets, hidden], are keys and queries of the
// distances.
struct AttentionInput {
  std::span<const float> query, key, value;
  int hidden = 0, heads = 0;
  int window = 0;  // tokens to either side that are attended to; 0: all
  const DistanceBuckets* buckets = nullptr;
  std::span<const float> distance_keys = {}, distance_queries = {};
};
[[nodiscard]] std::vector<float> attend(const AttentionInput& input);

// Rotary positions, in place: in every head of row t, values i and i + width / 2 are turned by the angle of t and i.
void rotate(std::span<float> rows, int hidden, const Rotation& rotation) noexcept;

// A pooler's input, [hidden]: row 0, the mean, the maximum per column, or the sum of two of these.
[[nodiscard]] std::vector<float> pool_input(std::span<const float> rows, int hidden, PoolInput kind);

// The input of a pooler after a reader, [2 · hidden]: row 0, then Σ_t a_t h_t with a = softmax_t(h_t · query).
[[nodiscard]] std::vector<float> reader_input(std::span<const float> rows, std::span<const float> query);

}  // namespace exeunt
