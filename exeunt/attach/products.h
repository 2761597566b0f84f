// SPDX-License-Identifier: Apache-2.0
// The matrix products of training, by the engine's fp32 kernels. For one thread: it keeps its buffers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/region.h"

namespace exeunt {

class Products {
 public:
  explicit Products(const Kernels& kernels) : kernels_(kernels) {}

  // out [m, n] = a [m, k] · b [n, k]ᵀ + bias [n]; an empty bias is zero.
  struct Sizes {
    int m, n, k;
  };
  void times_transposed(const Sizes& sizes, const float* a, const float* b, std::span<const float> bias, float* out);
  // out [m, n] = a [k, m]ᵀ · b [k, n]
  void transposed_times(const Sizes& sizes, const float* a, const float* b, float* out);
  // out [m, n] = a [m, k] · b [k, n], the rows of b `stride` apart
  void times(const Sizes& sizes, const float* a, const float* b, size_t stride, float* out);

 private:
  const Kernels& kernels_;
  Region weight_ = {}, operand_ = {};
  std::vector<float> zeros_ = {}, left_ = {}, right_ = {};
};

// out[r] = Σ_t rows[t, r], in the order of t.
void sum_rows(const float* rows, size_t count, std::span<float> out);

}  // namespace exeunt
