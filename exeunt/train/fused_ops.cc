// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/fused_ops.h"

#include <cmath>
#include <numbers>

#include "exeunt/base/error.h"
#include "exeunt/train/gpu.h"

namespace exeunt::nn {
namespace {

Tensor slope(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * (1 + torch::erf(x * std::numbers::sqrt2 / 2)) +
             x * torch::exp(-0.5 * x * x) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    case Activation::gelu_new: {
      const double c = std::sqrt(2 * std::numbers::inv_pi);
      const Tensor t = torch::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::relu:
      return x.gt(0).to(x.dtype());
  }
  check(false, "an activation has a slope");
  return x;
}

}  // namespace

AddNormTape add_norm(const AddNormInput& input) {
  if (input.x.is_cuda()) return gpu::add_norm(input);
  check(input.dropout.rate == 0, "only a GPU drops elements here");
  AddNormTape tape;
  tape.sum = input.x.add_(input.residual);
  const Tensor mean = tape.sum.mean(-1, true), apart = tape.sum - mean;
  const Tensor scale = (apart.pow(2).mean(-1, true) + input.epsilon).rsqrt();
  tape.out = apart * scale * input.weight + input.bias;
  tape.mean = mean.squeeze(-1);
  tape.scale = scale.squeeze(-1);
  return tape;
}

AddNormGradients add_norm_back(const Tensor& gradient, const AddNormTape& tape, const Tensor& weight,
                               const DropoutAt& dropout) {
  if (gradient.is_cuda()) return gpu::add_norm_back(gradient, tape, weight, dropout);
  const Tensor unit = (tape.sum - tape.mean.unsqueeze(-1)) * tape.scale.unsqueeze(-1);
  const Tensor inner = gradient * weight;
  const Tensor back = tape.scale.unsqueeze(-1) * (inner - inner.mean(-1, true) - unit * (inner * unit).mean(-1, true));
  return {back, back.clone(), (gradient * unit).sum(0), gradient.sum(0), back.sum(0)};
}

Tensor activation_back(Tensor& gradient, const Tensor& input, Activation activation) {
  if (gradient.is_cuda()) return gpu::activation_back(gradient, input, activation);
  gradient.mul_(slope(input, activation));
  return gradient.sum(0);
}

Tensor column_sums(const Tensor& gradient) {
  return gradient.is_cuda() ? gpu::column_sums(gradient) : gradient.sum(0);
}

ReaderTape read_texts(const Tensor& rows, const Tensor& real, const Tensor& query) {
  if (rows.is_cuda()) return gpu::read_texts(rows, real, query);
  const Tensor scores = torch::matmul(rows, query).masked_fill(real.logical_not(), -INFINITY);
  const Tensor shares = torch::softmax(scores, 1);
  return {torch::cat({rows.select(1, 0), torch::bmm(shares.unsqueeze(1), rows).squeeze(1)}, 1), shares};
}

Tensor read_texts_back(const Tensor& gradient, const ReaderInput& input, Tensor& back) {
  if (gradient.is_cuda()) return gpu::read_texts_back(gradient, input, back);
  const int64_t columns = input.rows.size(2);
  const Tensor read = gradient.narrow(1, columns, columns);
  const Tensor along = torch::bmm(input.rows, read.unsqueeze(2)).squeeze(2);  // what a share more would bring
  const Tensor scores = input.shares * (along - (input.shares * along).sum(1, true));
  back.select(1, 0).add_(gradient.narrow(1, 0, columns));
  back.add_(input.shares.unsqueeze(2) * read.unsqueeze(1) + scores.unsqueeze(2) * input.query);
  return (scores.unsqueeze(2) * input.rows).flatten(0, 1).sum(0);
}

}  // namespace exeunt::nn
