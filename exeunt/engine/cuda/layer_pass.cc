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

void LayerPass::place(MemoryParts& parts) {
  const size_t rows = count(rows_), row = model_.row_bytes(),
               inner = count(model_.spec.inner) * bytes_of(model_.number);
  const size_t quantized = model_.quantizes ? rows : 0;
  middle_ = parts.take<std::byte>(rows * row);
  product_ = parts.take<std::byte>(rows * row);
  wide_ = parts.take<std::byte>(rows * std::max(4 * row, inner));  // queries, keys, values, context; or the inner half
  quantized_ = parts.take<int8_t>(quantized * count(std::max(model_.spec.hidden, model_.spec.inner)));
  scales_ = parts.take<float>(quantized);
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
  Product job = model_.product(matrix);
  job.input = int8 ? static_cast<const void*>(quantized_) : from;
  job.row_scale = int8 ? scales_ : nullptr;
  job.out = out.to;
  job.finish = out.finish;
  job.live = out.live;
  job.max_rows = out.max_rows;
  multiply(job, model_.chip, stream);
}

AddNormJob LayerPass::quantizing(AddNormJob job, const Matrix& next) const {
  if (next.scale == nullptr || model_.spec.hidden > 2048) return job;
  job.quantized = quantized_;
  job.scale = scales_;
  return job;
}

// Behind queries, keys and values.
std::byte* LayerPass::context() const {
  return wide_ + count(rows_) * 3 * model_.row_bytes();
}

void LayerPass::embed_tokens(const Tokens& tokens, Stream stream) const {
  embed({.number = model_.number,
         .ids = tokens.input.ids,
         .types = tokens.input.types,
         .positions = tokens.input.positions,
         .word = model_.word,
         .position = model_.position,
         .segment = model_.segment,
         .columns = model_.spec.embedding,
         .norm = model_.embedding_norm,
         .out = model_.project ? tokens.embedded : tokens.out,
         .live = tokens.input.list.live,
         .max_rows = tokens.max_rows},
        stream);
  if (!model_.project) return;
  product(*model_.project, tokens.embedded, false,
          {.to = tokens.out, .live = tokens.input.list.live, .max_rows = tokens.max_rows}, stream);
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
