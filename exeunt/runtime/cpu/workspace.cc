// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/workspace.h"

#include <algorithm>
#include <initializer_list>

#include "exeunt/exits/policy.h"

namespace exeunt {
namespace {

// The largest state of a rule is a window over all exits, and the probabilities of the previous exit.
size_t largest_state(const ExitLayout& exits) {
  return kMaxExits + 16 + static_cast<size_t>(memory_floats(std::max(exits.outputs, 1)));
}

// The most any layer needs of an operand that `weight` picks, for texts of up to `rows` tokens.
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
  for (const PackedWeight& pooler : model.poolers)
    bytes = std::max(bytes, model.kernels->operand_bytes(pooler.precision, 1, pooler.inputs));
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

Workspace::Workspace(const PackedModel& model) : state_floats(largest_state(model.exits)) {
  const ModelSpec& spec = model.spec;
  const int longest = spec.max_tokens();
  const auto tokens = static_cast<size_t>(longest), d = static_cast<size_t>(spec.hidden);
  Layout layout;
  layout.add(rows, tokens * d);
  layout.add(first_row, d);
  if (model.project) {
    layout.add(embedded, tokens * static_cast<size_t>(spec.embedding));
    layout.add(project_input, model.kernels->operand_bytes(model.project->precision, longest, spec.embedding));
  }
  layout.add(qkv, tokens * 3 * d * (model.attention == Precision::bf16 ? sizeof(uint16_t) : sizeof(float)));
  if (any_int8(model, &PackedLayer::output)) layout.add(context, tokens * d);
  if (any_int8(model, &PackedLayer::ffn2)) layout.add(inner, tokens * static_cast<size_t>(spec.inner));
  layout.add(layer_input, operand_bytes(model, &PackedLayer::query, longest));
  layout.add(context_input, operand_bytes(model, &PackedLayer::output, longest));
  layout.add(ffn1_input, operand_bytes(model, &PackedLayer::ffn1, longest));
  layout.add(ffn2_input, operand_bytes(model, &PackedLayer::ffn2, longest));
  layout.add(attention, model.kernels->attention_scratch(model.attention, longest, spec.hidden / spec.heads));

  const auto outputs = static_cast<size_t>(std::max(model.exits.outputs, 1));
  layout.add(exit_input, 2 * d);
  layout.add(scores, tokens);
  layout.add(pooled, static_cast<size_t>(std::max(model.exits.width, spec.hidden)));
  layout.add(hidden, static_cast<size_t>(model.exits.inner.value_or(1)));
  layout.add(lte, 1);
  layout.add(head_input, head_operand_bytes(model));
  layout.add(logits, outputs);
  layout.add(best, outputs);
  layout.add(state, state_floats);
  layout.add(state_before, state_floats);
  region_ = layout.make();
}

}  // namespace exeunt
