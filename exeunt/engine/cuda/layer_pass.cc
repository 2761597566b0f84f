// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/layer_pass.h"

#include <algorithm>

namespace exeunt::cuda {
namespace {

Finish finish_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return Finish::gelu;
    case Activation::gelu_new:
      return Finish::gelu_new;
    case Activation::relu:
      return Finish::relu;
  }
  return Finish::none;
}

}  // namespace

void LayerPass::plan(Plan& plan) {
  const size_t rows = count(rows_), inner = count(model_.spec.inner) * bytes_of(model_.number);
  at_.middle = plan.add(rows * row_bytes());
  at_.product = plan.add(rows * row_bytes());
  at_.wide = plan.add(rows * std::max(4 * row_bytes(), inner));  // queries, keys, values, context; or the inner half
  at_.quantized = plan.add(model_.quantizes ? rows * count(std::max(model_.spec.hidden, model_.spec.inner)) : 0);
  at_.scales = plan.add(model_.quantizes ? rows * sizeof(float) : 0);
}

void LayerPass::place(std::byte* base) {
  middle_ = base + at_.middle;
  product_ = base + at_.product;
  wide_ = base + at_.wide;
  quantized_ = reinterpret_cast<int8_t*>(base + at_.quantized);
  scales_ = reinterpret_cast<float*>(base + at_.scales);
}

void LayerPass::product(const Matrix& matrix, const std::byte* from, bool quantized, const Output& out,
                        Stream stream) const {
  const bool int8 = matrix.scale != nullptr;
  if (int8 && !quantized) {
    quantize({.rows = from,
              .columns = matrix.inputs,
              .out = quantized_,
              .scale = scales_,
              .live = out.live,
              .max_rows = out.max_rows},
             stream);
  }
  multiply({.number = model_.number,
            .input = int8 ? static_cast<const void*>(quantized_) : from,
            .weight = matrix.weight,
            .bias = matrix.bias,
            .out = out.to,
            .inputs = matrix.inputs,
            .outputs = matrix.outputs,
            .finish = out.finish,
            .live = out.live,
            .max_rows = out.max_rows,
            .row_scale = int8 ? scales_ : nullptr,
            .column_scale = matrix.scale},
           model_.chip, stream);
}

AddNormJob LayerPass::quantizing(AddNormJob job, const Matrix& next) const {
  if (next.scale == nullptr || model_.spec.hidden > 2048) return job;
  job.quantized = quantized_;
  job.scale = scales_;
  return job;
}

// Behind queries, keys and values.
std::byte* LayerPass::context() const {
  return wide_ + count(rows_) * 3 * row_bytes();
}

void LayerPass::embed_tokens(const Tokens& tokens, Stream stream) const {
  const auto ids = [&](size_t place) { return InputLayout::at<const int32_t>(tokens.input, place); };
  embed({.number = model_.number,
         .ids = ids(tokens.layout.ids),
         .types = ids(tokens.layout.types),
         .positions = ids(tokens.layout.positions),
         .word = model_.word,
         .position = model_.position,
         .segment = model_.segment,
         .columns = model_.spec.embedding,
         .norm = model_.embedding_norm,
         .out = model_.project ? tokens.embedded : tokens.out,
         .live = tokens.live,
         .max_rows = tokens.max_rows},
        stream);
  if (!model_.project) return;
  multiply({.number = model_.number,
            .input = tokens.embedded,
            .weight = model_.project->weight,
            .bias = model_.project->bias,
            .out = tokens.out,
            .inputs = model_.project->inputs,
            .outputs = model_.project->outputs,
            .live = tokens.live,
            .max_rows = tokens.max_rows},
           model_.chip, stream);
}

void LayerPass::attend(int layer, const Rows& in, bool first_only, Stream stream) const {
  product(model_.layer(layer).qkv, in.rows, in.quantized,
          {.to = wide_, .live = in.list.live, .max_rows = in.capacity.rows}, stream);
  cuda::attend({.number = model_.number,
                .qkv = wide_,
                .hidden = model_.spec.hidden,
                .heads = model_.spec.heads,
                .out = context(),
                .list = in.list,
                .capacity = in.capacity,
                .max_tokens = std::min(in.capacity.rows, model_.spec.max_tokens()),
                .first_only = first_only,
                .processors = model_.chip.processors},
               stream);
}

void LayerPass::rest(int layer, const Rest& rest, Stream stream) const {
  const LayerWeights& weights = model_.layer(layer);
  const auto norm = [&](AddNormJob job) {
    job.live = rest.live;
    job.max_rows = rest.max_rows;
    add_norm(job, stream);
  };
  const auto multiplied = [&](const Matrix& matrix, const std::byte* from, bool quantized, std::byte* to,
                              Finish finish) {
    product(matrix, from, quantized, {.to = to, .finish = finish, .live = rest.live, .max_rows = rest.max_rows},
            stream);
  };
  multiplied(weights.output, rest.from, false, product_, Finish::none);
  const AddNormJob between = quantizing({.number = model_.number,
                                         .a = product_,
                                         .b = rest.residual,
                                         .out = middle_,
                                         .columns = model_.spec.hidden,
                                         .norm = weights.attention_norm},
                                        weights.ffn1);
  norm(between);
  multiplied(weights.ffn1, middle_, between.quantized != nullptr, wide_, finish_of(model_.spec.activation));
  multiplied(weights.ffn2, wide_, false, product_, Finish::none);
  if (rest.out != nullptr) norm(last_norm(layer, rest.out));
}

AddNormJob LayerPass::last_norm(int layer, std::byte* out) const {
  return quantizing({.number = model_.number,
                     .a = product_,
                     .b = middle_,
                     .out = out,
                     .columns = model_.spec.hidden,
                     .norm = model_.layer(layer).ffn_norm},
                    layer + 1 < model_.spec.layers ? model_.layer(layer + 1).qkv : Matrix{});
}

}  // namespace exeunt::cuda
