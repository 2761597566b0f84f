// SPDX-License-Identifier: Apache-2.0
// y = W x + b for any number of rows, in plain fp32: the one matrix product of the reference forward.
// Every output is bias + x[0] w[0] + x[1] w[1] + …, in this order, on every machine and for any number of rows.
#pragma once

#include <span>
#include <vector>

#include "exeunt/base/tensor.h"

namespace exeunt {

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

}  // namespace exeunt
