// SPDX-License-Identifier: Apache-2.0
// The steps between a layer's matrix products with hand-written backward passes: one kernel each on a GPU in bf16
// (kernels.cu), and the same in LibTorch's own operations elsewhere, which is what the tests compare with.
#pragma once

#include "exeunt/model/spec.h"
#include "exeunt/train/torch.h"

namespace exeunt::nn {

using torch::Tensor;

// Which elements are dropped is a function of the batch's seed, the place in the network and the element.
struct DropoutAt {
  double rate = 0;
  Tensor seed = {};  // [1] int64 on the GPU
  int site = 0;
};

struct AddNormInput {
  Tensor residual;      // [rows, columns]
  Tensor x;             // its memory then holds the sum
  Tensor weight, bias;  // fp32
  double epsilon = 1e-12;
  DropoutAt dropout = {};
};
struct AddNormTape {
  Tensor out, sum, mean, scale;
};
struct AddNormGradients {
  Tensor residual, x;
  Tensor weight, bias, x_sum;  // fp32, summed over rows
};
// norm(residual + dropout(x)).
[[nodiscard]] AddNormTape add_norm(const AddNormInput& input);
[[nodiscard]] AddNormGradients add_norm_back(const Tensor& gradient, const AddNormTape& tape, const Tensor& weight,
                                             const DropoutAt& dropout);

// Multiplies `gradient` by the activation's slope at `input`, in place; returns its sum over rows in fp32.
Tensor activation_back(Tensor& gradient, const Tensor& input, Activation activation);
[[nodiscard]] Tensor column_sums(const Tensor& gradient);

// A reader over `rows` [texts, tokens, columns]: out [texts, 2 · columns] in fp32 and the tokens' shares.
struct ReaderTape {
  Tensor out, shares;
};
[[nodiscard]] ReaderTape read_texts(const Tensor& rows, const Tensor& real, const Tensor& query);
// Adds the gradient of the rows to `back`; returns the query's.
struct ReaderInput {
  Tensor rows, query, shares;
};
[[nodiscard]] Tensor read_texts_back(const Tensor& gradient, const ReaderInput& input, Tensor& back);

}  // namespace exeunt::nn
