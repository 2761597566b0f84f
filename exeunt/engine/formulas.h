// SPDX-License-Identifier: Apache-2.0
// Formulas of an encoder and of its exits, one plain fp32 function each; tests/reference has the whole definition,
// which the engine is tested against. Sums run from the first element to the last; rows are [rows, width], row-major.
#pragma once

#include <span>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// y = W x + b for any number of rows: the one matrix product of the reference. Every output is
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

[[nodiscard]] float gelu(float x) noexcept;  // x Φ(x) with the error function
[[nodiscard]] float sigmoid(float x) noexcept;
void activate(PoolerActivation activation, std::span<float> values) noexcept;
struct NormWeights {
  std::vector<float> weight, bias;
  float epsilon = 0;
};
// Each row: (x − mean) / √(variance + ε) · weight + bias, with the variance over all values (÷ n), in place.
void layer_norm(std::span<float> rows, const NormWeights& norm) noexcept;

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

}  // namespace exeunt
