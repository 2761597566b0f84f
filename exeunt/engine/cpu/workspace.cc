// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/workspace.h"

#include <algorithm>

#include "exeunt/engine/memory_parts.h"

namespace exeunt {
namespace {

// The most any layer needs of an operand that `weight` picks, for up to `rows` rows.
size_t operand_bytes(const PackedModel& model, PackedWeight PackedLayer::*weight, int rows) {
  size_t bytes = 0;
  for (const PackedLayer& layer : model.layers) {
    const PackedWeight& w = layer.*weight;
    bytes = std::max(bytes, model.kernels->operand_bytes(w.precision, rows, w.inputs));
  }
  return bytes;
}

bool any_int8(const PackedModel& model, PackedWeight PackedLayer::*weight) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [&](const PackedLayer& layer) { return (layer.*weight).precision == Precision::int8; });
}

size_t head_operand_bytes(const PackedModel& model) {
  size_t bytes = 0;
  for (const PackedPooler& pooler : model.poolers)
    bytes = std::max(bytes, model.kernels->operand_bytes(pooler.map.precision, kMaxPackTexts, pooler.map.inputs));
  return bytes;
}

}  // namespace

Workspace::Workspace(const PackedModel& model, int pack_rows) : capacity(std::max(model.spec.max_tokens(), pack_rows)) {
  MemoryParts sizes(kKernelAlignment);
  place(model, sizes);
  region_ = Region(sizes.size(), "working memory");
  MemoryParts parts(kKernelAlignment, region_.data());
  place(model, parts);
}

void Workspace::place(const PackedModel& model, MemoryParts& parts) {
  const ModelSpec& spec = model.spec;
  const auto most_rows = static_cast<size_t>(capacity), d = static_cast<size_t>(spec.hidden);
  constexpr size_t texts = kMaxPackTexts;
  const size_t attended = model.attention == Precision::bf16 ? sizeof(uint16_t) : sizeof(float);
  rows = parts.take<float>(most_rows * d);
  if (model.project) {
    embedded = parts.take<float>(most_rows * static_cast<size_t>(spec.embedding));
    project_input =
        parts.take<std::byte>(model.kernels->operand_bytes(model.project->precision, capacity, spec.embedding));
  }
  qkv = parts.take<std::byte>(most_rows * 3 * d * attended);
  if (any_int8(model, &PackedLayer::output)) context = parts.take<float>(most_rows * d);
  const auto f = static_cast<size_t>(spec.inner);
  if (spec.gated || any_int8(model, &PackedLayer::ffn2)) inner = parts.take<float>(most_rows * f);
  if (spec.pre_norm) normed = parts.take<float>(most_rows * d);
  layer_input = parts.take<std::byte>(operand_bytes(model, &PackedLayer::query, capacity));
  context_input = parts.take<std::byte>(operand_bytes(model, &PackedLayer::output, capacity));
  ffn1_input = parts.take<std::byte>(operand_bytes(model, &PackedLayer::ffn1, capacity));
  ffn2_input = parts.take<std::byte>(operand_bytes(model, &PackedLayer::ffn2, capacity));
  attention = parts.take<std::byte>(
      model.kernels->attention_scratch(model.attention, spec.max_tokens(), spec.hidden / spec.heads));
  if (spec.relative_buckets > 0) {
    const auto longest = static_cast<size_t>(spec.max_tokens()),
               rows_of_distances = 2 * static_cast<size_t>(spec.relative_buckets);
    head_rows = parts.take<std::byte>(model.kernels->operand_bytes(model.heads, kAttentionBlock, spec.head_width()));
    key_distances = parts.take<float>(longest * rows_of_distances);
    query_distances = parts.take<float>(kAttentionBlock * rows_of_distances);
    bias = parts.take<float>(kAttentionBlock * longest);
  }
  first_rows = parts.take<float>(texts * d);
  first_query = parts.take<std::byte>(texts * 3 * d * attended);
  first_input = parts.take<std::byte>(operand_bytes(model, &PackedLayer::query, kMaxPackTexts));

  const auto outputs = static_cast<size_t>(std::max(model.exits.outputs, 1));
  exit_input = parts.take<float>(texts * 2 * d);
  scores = parts.take<float>(most_rows);
  pooled = parts.take<float>(texts * static_cast<size_t>(std::max(model.exits.width, spec.hidden)));
  hidden = parts.take<float>(static_cast<size_t>(model.exits.inner.value_or(1)));
  head_input = parts.take<std::byte>(head_operand_bytes(model));
  logits = parts.take<float>(texts * outputs);
  lte = parts.take<float>(texts);
  ramp = parts.take<float>(outputs);
}

}  // namespace exeunt
