// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/batch_memory.h"

#include <algorithm>
#include <memory>

#include "exeunt/base/error.h"

namespace exeunt::cuda {

bool InputTexts::add(const Encoding& text, int slot, const SlotOptions& options, const DeviceModel& model) {
  SlotAsk ask{.stop = options.stop, .all_exits = options.all_exits ? 1 : 0};
  if (options.policy != nullptr) {
    auto place = std::find(policies.begin(), policies.end(), options.policy);
    if (place == policies.end()) place = std::find(policies.begin(), policies.end(), nullptr);
    if (place == policies.end()) return false;
    check(options.policy->state_floats <= model.state_floats, "a policy's state fits its place");
    ask.policy = static_cast<int>(place - policies.begin());
    *place = options.policy;
  }
  encodings.push_back(&text);
  slots.push_back(slot);
  asks.push_back(ask);
  if (model.exits.ngrams) {
    states.insert(states.end(), options.state.begin(), options.state.end());
    states.resize(asks.size() * count(model.state_floats));
  }
  return true;
}

void InputTexts::clear_texts() {
  encodings.clear();
  slots.clear();
  asks.clear();
  states.clear();
}

TextList take_list(const Capacity& capacity, MemoryParts& parts) {
  const size_t texts = count(capacity.texts);
  return {.live = parts.take<Live>(1),
          .slot = parts.take<int>(texts),
          .begin = parts.take<int>(texts + 1),
          .tiles = parts.take<Tile>(count(capacity.tiles()))};
}

BatchInput::BatchInput(const DeviceModel& model, const Capacity& capacity, std::byte* base) {
  MemoryParts parts(kPartAlignment, base);
  list = take_list(capacity, parts);
  asks = parts.take<SlotAsk>(count(capacity.texts));
  policies = parts.take<Policy>(kMaxPolicies);
  states = model.exits.ngrams ? parts.take<float>(count(capacity.texts) * count(model.state_floats)) : nullptr;
  ids = parts.take<int32_t>(count(capacity.rows));
  types = parts.take<int32_t>(count(capacity.rows));
  positions = parts.take<int32_t>(count(capacity.rows));
  bytes = parts.size();
}

void BatchInput::write(const InputTexts& texts, const DeviceModel& model) {
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
  std::copy(texts.asks.begin(), texts.asks.end(), asks);
  std::copy(texts.states.begin(), texts.states.end(), states);
  for (size_t p = 0; p < texts.policies.size(); ++p) {
    if (texts.policies[p] == nullptr) continue;
    std::construct_at(policies + p, *texts.policies[p])->logit_thresholds = model.logit_thresholds;
  }
}

BatchResults::BatchResults(const DeviceModel& model, int texts, std::byte* base)
    : sites(static_cast<int>(model.exits.sites.size())), outputs(count(model.exits.outputs)) {
  MemoryParts parts(kPartAlignment, base);
  exit_site = parts.take<int>(count(texts));
  logits = parts.take<float>(count(texts) * count(sites) * outputs);
  lte = parts.take<float>(count(texts) * count(sites));
  ramp = parts.take<float>(model.exits.last_ramp ? count(texts) * outputs : 0);
  decided = parts.take<int>(1);
  bytes = parts.size();
}

ExitMemory::ExitMemory(const DeviceModel& model, int texts, size_t vector_sets, MemoryParts& parts) {
  state = parts.take<float>(count(texts) * count(model.state_floats));
  vectors = parts.take<float>(vector_sets * count(texts) * count(std::max(1, model.exits.width)));
  hidden = parts.take<float>(count(texts) * count(model.exits.inner.value_or(1)));
  leaves = parts.take<int>(count(texts));
  from = parts.take<int>(count(texts));
  arrived_bytes = (count(texts) / kExitTexts + 3) * sizeof(unsigned);
  arrived = parts.take<unsigned>(arrived_bytes / sizeof(unsigned));
}

ExitJob ExitMemory::job(const DeviceModel& model, const BatchResults& results) const {
  return {.number = model.number,
          .row_columns = model.spec.hidden,
          .lte = model.lte,
          .sites = static_cast<int>(model.exits.sites.size()),
          .outputs = model.exits.outputs,
          .state = state,
          .state_floats = model.state_floats,
          .logits = results.logits,
          .lte_scores = results.lte,
          .ramp_logits = results.ramp,
          .exit_site = results.exit_site,
          .vectors = vectors,
          .hidden = hidden,
          .leaves = leaves,
          .from = from,
          .arrived = arrived};
}

const Capacity& fitting(const std::vector<Capacity>& capacities, int texts, int rows) {
  return *std::find_if(capacities.begin(), std::prev(capacities.end()),
                       [&](const Capacity& capacity) { return texts <= capacity.texts && rows <= capacity.rows; });
}

}  // namespace exeunt::cuda
