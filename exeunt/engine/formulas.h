// SPDX-License-Identifier: Apache-2.0
// The formulas of a BERT encoder and of its exits, one plain fp32 function each. They define what every faster engine
// computes. Sums run from the first element to the last; rows are [rows, width], row-major, without padding.
#pragma once

#include <span>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/model/positions.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// y = W x + b for any number of rows: the one matrix product of the reference forward. Every output is
// bias + x[0] w[0] + x[1] w[1] + …, in this order, on every machine and for any number of rows.
class Linear {
 public:
  Linear(const TensorView& weight, const TensorView& bias);  // [outputs, inputs] and [outputs], any floating type

  [[nodiscard]] int inputs() const noexcept { return inputs_; }
  [[nodiscard]] int outputs() const noexcept { return outputs_; }

  // [rows, inputs] → [rows, outputs]
  [[nodiscard]] std::vector<float> operator()(std::span<const float> rows) const;

 private:
  int inputs_, outputs_;
  // The weight in panels of kColumns outputs, each [inputs, kColumns] with the last one padded with zeros: one
  // input meets a whole panel row, so the inner loop is contiguous in memory and the compiler vectorises it.
  std::vector<float> panels_;
  std::vector<float> bias_;
};

[[nodiscard]] float gelu(float x) noexcept;      // x Φ(x) with the error function
[[nodiscard]] float gelu_new(float x) noexcept;  // its approximation by tanh
[[nodiscard]] float sigmoid(float x) noexcept;
void activate(Activation activation, std::span<float> values) noexcept;
void activate(PoolerActivation activation, std::span<float> values) noexcept;
void add_to(std::span<float> sum, std::span<const float> other) noexcept;
void tanh_all(std::span<float> values) noexcept;

// p_i = exp(x_i − max x) / Σ exp(x_j − max x), in place.
void softmax(std::span<float> values) noexcept;

struct NormWeights {
  std::vector<float> weight, bias;
  float epsilon = 0;
};
// Each row: (x − mean) / √(variance + ε) · weight + bias, with the variance over all values (÷ n), in place.
void layer_norm(std::span<float> rows, const NormWeights& norm) noexcept;

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

// What a pooler's input has: the sum of these.
[[nodiscard]] constexpr bool pools_first(PoolInput kind) noexcept {
  return kind == PoolInput::cls || kind == PoolInput::cls_mean || kind == PoolInput::cls_max;
}
[[nodiscard]] constexpr bool pools_mean(PoolInput kind) noexcept {
  return kind == PoolInput::mean || kind == PoolInput::cls_mean || kind == PoolInput::mean_max;
}
[[nodiscard]] constexpr bool pools_max(PoolInput kind) noexcept {
  return kind == PoolInput::max || kind == PoolInput::cls_max || kind == PoolInput::mean_max;
}
// True if the exit `site` needs every row of its layer, not only the first.
[[nodiscard]] inline bool reads_all_rows(const ExitLayout& exits, const ExitSite& site) {
  return site.reader.has_value() || exits.input != PoolInput::cls;
}

// A pooler's input, [hidden]: row 0, the mean, the maximum per column, or the sum of two of these.
[[nodiscard]] std::vector<float> pool_input(std::span<const float> rows, int hidden, PoolInput kind);

// The input of a pooler after a reader, [2 · hidden]: row 0, then Σ_t a_t h_t with a = softmax_t(h_t · query).
[[nodiscard]] std::vector<float> reader_input(std::span<const float> rows, std::span<const float> query);

}  // namespace exeunt
