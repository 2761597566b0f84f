// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/exit_heads.h"

#include <algorithm>

#include "exeunt/runtime/cpu/share.h"
#include "exeunt/runtime/formulas.h"

namespace exeunt {
namespace {

// The mean or maximum per column, over all rows in order.
void add_mean(const LayerRows& rows, size_t width, float* out, float* sum) {
  std::copy_n(rows.all, width, sum);
  for (size_t t = 1; t < static_cast<size_t>(rows.tokens); ++t) {
    for (size_t c = 0; c < width; ++c) sum[c] += rows.all[t * width + c];
  }
  for (size_t c = 0; c < width; ++c) out[c] += sum[c] / static_cast<float>(rows.tokens);
}

void add_max(const LayerRows& rows, size_t width, float* out, float* largest) {
  std::copy_n(rows.all, width, largest);
  for (size_t t = 1; t < static_cast<size_t>(rows.tokens); ++t) {
    for (size_t c = 0; c < width; ++c) largest[c] = std::max(largest[c], rows.all[t * width + c]);
  }
  for (size_t c = 0; c < width; ++c) out[c] += largest[c];
}

bool has_first(PoolInput input) {
  return input == PoolInput::cls || input == PoolInput::cls_mean || input == PoolInput::cls_max;
}
bool has_mean(PoolInput input) {
  return input == PoolInput::mean || input == PoolInput::cls_mean || input == PoolInput::mean_max;
}
bool has_max(PoolInput input) {
  return input == PoolInput::max || input == PoolInput::cls_max || input == PoolInput::mean_max;
}

}  // namespace

void ExitHeads::gather(const ExitSite& site, const LayerRows& rows) noexcept {
  const auto width = static_cast<size_t>(model_.spec.hidden);
  float* out = space_.exit_input;
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
  if (has_first(input)) std::copy_n(rows.first, width, out);
  if (has_mean(input)) add_mean(rows, width, out, out + width);
  if (has_max(input)) add_max(rows, width, out, out + width);
}

void ExitHeads::multiply(const PackedWeight& weight, const float* input, float* out) noexcept {
  const Operand operand{.precision = weight.precision, .rows = 1, .columns = weight.inputs, .data = space_.head_input};
  model_.kernels->pack_rows(input, static_cast<size_t>(weight.inputs), operand, 0, 1);
  multiply_shared(*model_.kernels, member_,
                  {.weight = &weight,
                   .input = operand,
                   .finish = Finish::store,
                   .out = out,
                   .stride = static_cast<size_t>(weight.outputs),
                   .rows = 1});
}

void ExitHeads::multiply(const PlainWeight& weight, const float* input, float* out) const noexcept {
  const auto inputs = static_cast<size_t>(weight.inputs);
  for (size_t o = 0; o < static_cast<size_t>(weight.outputs); ++o) {
    out[o] = model_.kernels->dot(weight.weight + o * inputs, input, weight.inputs) + weight.bias[o];
  }
}

float ExitHeads::run(const ExitSite& site, const LayerRows& rows, float* logits) noexcept {
  gather(site, rows);
  const float* pooled = space_.exit_input;
  if (site.pooler) {
    const PackedWeight& pooler = model_.poolers[static_cast<size_t>(*site.pooler)];
    multiply(pooler, space_.exit_input, space_.pooled);
    model_.kernels->tanh(space_.pooled, pooler.outputs);
    pooled = space_.pooled;
  }
  const PackedClassifier& classifier = model_.classifiers[static_cast<size_t>(site.classifier)];
  if (classifier.inner) {
    multiply(classifier.outer, pooled, space_.hidden);
    model_.kernels->tanh(space_.hidden, classifier.outer.outputs);
    multiply(*classifier.inner, space_.hidden, logits);
  } else {
    multiply(classifier.outer, pooled, logits);
  }
  if (!model_.lte) return 0;
  multiply(*model_.lte, pooled, space_.lte);
  return sigmoid(*space_.lte);
}

void ExitHeads::run_ramp(const LayerRows& rows, float* logits) noexcept {
  const ExitLayout::Ramp& ramp = *model_.exits.last_ramp;
  run({.after = model_.spec.layers, .pooler = ramp.pooler, .classifier = ramp.classifier}, rows, logits);
}

}  // namespace exeunt
