// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/batch_input.h"

#include <algorithm>
#include <cstring>

#include "exeunt/engine/cuda/plan.h"

namespace exeunt::cuda {

InputLayout::InputLayout(const Capacity& capacity) {
  const size_t texts = count(capacity.texts), rows = count(capacity.rows);
  Plan plan;
  live = plan.add(sizeof(Live));
  slot = plan.add(texts * sizeof(int));
  begin = plan.add((texts + 1) * sizeof(int));
  tiles = plan.add(count(capacity.tiles()) * sizeof(Tile));
  asks = plan.add(texts * sizeof(SlotAsk));
  policies = plan.add(kMaxPolicies * sizeof(Policy));
  ids = plan.add(rows * sizeof(int32_t));
  types = plan.add(rows * sizeof(int32_t));
  positions = plan.add(rows * sizeof(int32_t));
  bytes = plan.size();
}

TextList InputLayout::list(std::byte* base) const {
  return {.live = at<Live>(base, live),
          .slot = at<int>(base, slot),
          .begin = at<int>(base, begin),
          .tiles = at<Tile>(base, tiles)};
}

void write_input(const InputTexts& texts, const DeviceModel& model, const InputLayout& layout, std::byte* host) {
  const TextList list = layout.list(host);
  auto* ids = InputLayout::at<int32_t>(host, layout.ids);
  auto* types = InputLayout::at<int32_t>(host, layout.types);
  auto* positions = InputLayout::at<int32_t>(host, layout.positions);
  int row = 0, tile = 0;
  for (size_t text = 0; text < texts.encodings.size(); ++text) {
    const Encoding& encoding = *texts.encodings[text];
    const auto tokens = static_cast<int>(encoding.ids.size());
    list.slot[text] = texts.slots[text];
    list.begin[text] = row;
    for (int first = 0; first < tokens; first += kTileRows)
      list.tiles[tile++] = {.text = static_cast<int>(text), .first = first};
    for (int t = 0; t < tokens; ++t, ++row) {
      ids[row] = encoding.ids[count(t)];
      types[row] = encoding.types[count(t)];
      positions[row] = t + model.spec.position_offset;
    }
  }
  list.begin[texts.encodings.size()] = row;
  *list.live = {.texts = static_cast<int>(texts.encodings.size()), .rows = row, .tiles = tile};
  std::copy(texts.asks.begin(), texts.asks.end(), InputLayout::at<SlotAsk>(host, layout.asks));
  for (size_t p = 0; p < texts.policies.size(); ++p) {
    if (texts.policies[p] == nullptr) continue;
    Policy policy = *texts.policies[p];
    policy.logit_thresholds = model.logit_thresholds;
    std::memcpy(host + layout.policies + p * sizeof(Policy), &policy, sizeof(Policy));
  }
}

}  // namespace exeunt::cuda
