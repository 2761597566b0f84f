// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/workspace.h"

#include <algorithm>

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

// Parts of a region, first planned, then placed.
class Layout {
 public:
  template <class T>
  void add(T*& place, size_t count) {
    parts_.push_back({reinterpret_cast<std::byte**>(&place), plan_.add(count, sizeof(T))});
  }
  [[nodiscard]] Region make() const {
    Region region(plan_.size(), "working memory");
    for (const auto& [place, offset] : parts_) *place = region.data() + offset;
    return region;
  }

 private:
  RegionPlan plan_ = {};
  std::vector<std::pair<std::byte**, size_t>> parts_ = {};
};

}  // namespace

Workspace::Workspace(const PackedModel& model, int pack_rows) : capacity(std::max(model.spec.max_tokens(), pack_rows)) {
  const ModelSpec& spec = model.spec;
  const auto most_rows = static_cast<size_t>(capacity), d = static_cast<size_t>(spec.hidden);
  constexpr size_t texts = kMaxPackTexts;
  const size_t attended = model.attention == Precision::bf16 ? sizeof(uint16_t) : sizeof(float);
  Layout layout;
  layout.add(rows, most_rows * d);
  if (model.project) {
    layout.add(embedded, most_rows * static_cast<size_t>(spec.embedding));
    layout.add(project_input, model.kernels->operand_bytes(model.project->precision, capacity, spec.embedding));
  }
  layout.add(qkv, most_rows * 3 * d * attended);
  if (any_int8(model, &PackedLayer::output)) layout.add(context, most_rows * d);
  const auto f = static_cast<size_t>(spec.inner);
  if (spec.gated || any_int8(model, &PackedLayer::ffn2)) layout.add(inner, most_rows * f);
  if (spec.pre_norm) layout.add(normed, most_rows * d);
  layout.add(layer_input, operand_bytes(model, &PackedLayer::query, capacity));
  layout.add(context_input, operand_bytes(model, &PackedLayer::output, capacity));
  layout.add(ffn1_input, operand_bytes(model, &PackedLayer::ffn1, capacity));
  layout.add(ffn2_input, operand_bytes(model, &PackedLayer::ffn2, capacity));
  layout.add(attention, model.kernels->attention_scratch(model.attention, spec.max_tokens(), spec.hidden / spec.heads));
  if (spec.relative_buckets > 0) {
    const auto longest = static_cast<size_t>(spec.max_tokens()),
               rows_of_distances = 2 * static_cast<size_t>(spec.relative_buckets);
    layout.add(head_rows, model.kernels->operand_bytes(model.heads, kAttentionBlock, spec.head_width()));
    layout.add(key_distances, longest * rows_of_distances);
    layout.add(query_distances, kAttentionBlock * rows_of_distances);
    layout.add(bias, kAttentionBlock * longest);
  }
  layout.add(first_rows, texts * d);
  layout.add(first_query, texts * 3 * d * attended);
  layout.add(first_input, operand_bytes(model, &PackedLayer::query, kMaxPackTexts));

  const auto outputs = static_cast<size_t>(std::max(model.exits.outputs, 1));
  layout.add(exit_input, texts * 2 * d);
  layout.add(scores, most_rows);
  layout.add(pooled, texts * static_cast<size_t>(std::max(model.exits.width, spec.hidden)));
  layout.add(hidden, static_cast<size_t>(model.exits.inner.value_or(1)));
  layout.add(head_input, head_operand_bytes(model));
  layout.add(logits, texts * outputs);
  layout.add(lte, texts);
  layout.add(ramp, outputs);
  region_ = layout.make();
}

}  // namespace exeunt
