// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/exit_heads.h"

#include <algorithm>
#include <functional>

#include "exeunt/engine/cpu/parallel_product.h"
#include "exeunt/engine/formulas.h"

namespace exeunt {
namespace {

// Adds to `out`, per column, what `join` makes of all rows in order, divided by `divisor`; `all` is scratch.
template <class Join>
void add_rows(const LayerRows& rows, size_t width, float* out, float* all, float divisor, Join join) {
  std::copy_n(rows.all, width, all);
  for (size_t t = 1; t < static_cast<size_t>(rows.tokens); ++t) {
    for (size_t c = 0; c < width; ++c) all[c] = join(all[c], rows.all[t * width + c]);
  }
  for (size_t c = 0; c < width; ++c) out[c] += all[c] / divisor;
}

}  // namespace

// `out` has room for two rows: a reader's is the second, and a mean or maximum is computed there.
void ExitHeads::gather(const ExitSite& site, const LayerRows& given, float* out) noexcept {
  const auto width = static_cast<size_t>(model_.spec.hidden);
  LayerRows rows = given;
  if (model_.final_norm.weight != nullptr) {
    const bool all = reads_all_rows(model_.exits, site);
    rows.all = all ? as_read(given) : nullptr;
    rows.first = all ? rows.all : as_read({.first = given.first, .all = given.first, .tokens = 1});
  }
  if (site.reader) {
    std::copy_n(rows.first, width, out);
    model_.kernels->read({.rows = rows.all,
                          .stride = width,
                          .tokens = rows.tokens,
                          .columns = model_.spec.hidden,
                          .query = model_.readers[static_cast<size_t>(*site.reader)],
                          .scores = space_.scores,
                          .out = out + width});
    return;
  }
  const PoolInput input = model_.exits.input;
  std::fill_n(out, width, 0.0F);
  if (pools_first(input)) std::copy_n(rows.first, width, out);
  if (pools_mean(input)) add_rows(rows, width, out, out + width, static_cast<float>(rows.tokens), std::plus<>());
  if (pools_max(input)) add_rows(rows, width, out, out + width, 1.0F, [](float a, float b) { return std::max(a, b); });
}

const float* ExitHeads::as_read(const LayerRows& rows) noexcept {
  if (model_.final_norm.weight == nullptr) return rows.all;
  std::copy_n(rows.all, static_cast<size_t>(rows.tokens) * static_cast<size_t>(model_.spec.hidden), space_.normed);
  normalize(model_.final_norm, model_.spec.hidden, space_.normed, rows.tokens);
  return space_.normed;
}

void ExitHeads::normalize(const PackedNorm& norm, int columns, float* rows, int count) const noexcept {
  Normalization call = model_.normalization(norm, columns);
  call.data = rows;
  call.rows = count;
  model_.kernels->normalize(call);
}

void ExitHeads::pool(const PackedPooler& packed, PoolerActivation activation, int texts) noexcept {
  const PackedWeight& pooler = packed.map;
  const Operand operand{
      .precision = pooler.precision, .rows = kMaxPackTexts, .columns = pooler.inputs, .data = space_.head_input};
  model_.kernels->pack_rows(space_.exit_input, 2 * static_cast<size_t>(model_.spec.hidden), operand, 0, texts);
  multiply_parallel(*model_.kernels, worker_,
                    {.weight = &pooler,
                     .input = operand,
                     .finish = Finish::store,
                     .out = space_.pooled,
                     .stride = static_cast<size_t>(pooler.outputs),
                     .rows = texts});
  const int values = texts * pooler.outputs;
  if (activation == PoolerActivation::tanh) {
    for (int n = 0; n < texts; ++n)
      model_.kernels->tanh(space_.pooled + static_cast<size_t>(n) * static_cast<size_t>(pooler.outputs),
                           pooler.outputs);
  } else {
    activate(activation, {space_.pooled, static_cast<size_t>(values)});
  }
  if (packed.norm.weight != nullptr) normalize(packed.norm, pooler.outputs, space_.pooled, texts);
}

void ExitHeads::multiply(const PlainWeight& weight, const float* input, float* out) const noexcept {
  const auto inputs = static_cast<size_t>(weight.inputs);
  for (size_t o = 0; o < static_cast<size_t>(weight.outputs); ++o) {
    out[o] = model_.kernels->dot(weight.weight + o * inputs, input, weight.inputs) + weight.bias[o];
  }
}

void ExitHeads::run(const ExitSite& site, std::span<const LayerRows> texts, float* logits, float* lte) noexcept {
  const size_t input_stride = 2 * static_cast<size_t>(model_.spec.hidden);
  for (size_t n = 0; n < texts.size(); ++n) gather(site, texts[n], space_.exit_input + n * input_stride);
  const float* pooled = space_.exit_input;
  size_t pooled_stride = input_stride;
  if (site.pooler) {
    const PackedPooler& pooler = model_.poolers[static_cast<size_t>(*site.pooler)];
    pool(pooler, site.reader ? PoolerActivation::tanh : model_.exits.pooler.activation, static_cast<int>(texts.size()));
    pooled = space_.pooled;
    pooled_stride = static_cast<size_t>(pooler.map.outputs);
  }
  const PackedClassifier& classifier = model_.classifiers[static_cast<size_t>(site.classifier)];
  const auto outputs = static_cast<size_t>(model_.exits.outputs);
  for (size_t n = 0; n < texts.size(); ++n, pooled += pooled_stride) {
    if (classifier.inner) {
      multiply(classifier.outer, pooled, space_.hidden);
      model_.kernels->tanh(space_.hidden, classifier.outer.outputs);
      multiply(*classifier.inner, space_.hidden, logits + n * outputs);
    } else {
      multiply(classifier.outer, pooled, logits + n * outputs);
    }
    lte[n] = 0;
    if (!model_.lte) continue;
    multiply(*model_.lte, pooled, lte + n);
    lte[n] = sigmoid(lte[n]);
  }
}

void ExitHeads::run_ramp(const LayerRows& rows, float* logits) noexcept {
  const ExitLayout::Ramp& ramp = *model_.exits.last_ramp;
  float lte = 0;
  run({.after = model_.spec.layers, .pooler = ramp.pooler, .classifier = ramp.classifier}, {&rows, 1}, logits, &lte);
}

}  // namespace exeunt
