// SPDX-License-Identifier: Apache-2.0
// Continuous batching, for models whose layers all have the same weights (ALBERT): texts join the batch before every
// layer and leave it after any layer, and texts of all depths pass a layer together.
//
// The host starts one step (a layer and its exits) while the one before it runs, so it learns a step late which texts
// left: its count of rows is an upper bound of the device's.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/engine/cuda/layer_pass.h"

namespace exeunt::cuda {

class ContinuousBatch {
 public:
  // For up to `rows` rows; a text has at most the model's. The model mixes depths.
  ContinuousBatch(const DeviceModel& model, int rows);
  ~ContinuousBatch();
  ContinuousBatch(const ContinuousBatch&) = delete;
  ContinuousBatch& operator=(const ContinuousBatch&) = delete;

  [[nodiscard]] int texts() const noexcept { return static_cast<int>(active_.size()); }
  [[nodiscard]] int rows() const noexcept { return rows_; }
  // Lets a text join with the next step. Its slot; none: it is full now. An empty batch takes any text.
  [[nodiscard]] std::optional<int> add(const Encoding& text, const SlotOptions& options);
  // Starts a step, and returns.
  void step();
  // Waits for the step before the one that was started last. Returns the slots it freed, valid until the next step, as
  // their results are.
  [[nodiscard]] std::span<const int> finished();

  // Of the slots that are finished.
  [[nodiscard]] const BatchResults& results() const noexcept { return results_[(seen_ + 1) % 2]; }

 private:
  struct Buffers {
    std::byte *rows = nullptr, *embedded = nullptr, *fresh = nullptr, *input = nullptr, *results = nullptr,
              *first_rows = nullptr;
    std::array<TextList, 2> lists = {};  // they take turns
    SlotAsk* asks = nullptr;
    int *depth = nullptr, *first_row = nullptr, *site_after = nullptr, *place = nullptr, *site = nullptr;
    Live* site_live = nullptr;
    ClassifierLayers* classifiers = nullptr;
    ExitMemory exits = {};
  };
  struct ActiveText {
    int slot = 0;
    size_t joined = 0;  // with this step
  };
  void place(MemoryParts& parts);
  void upload_tables();
  void enqueue(const Capacity& capacity, size_t turn);
  void enqueue_joining(const Capacity& capacity, const TextList& list);
  void enqueue_exits(const Capacity& capacity, size_t turn);
  [[nodiscard]] int width() const { return model_.poolers[count(*model_.exits.sites.back().pooler)].outputs; }
  void release_policy(int index);

  const DeviceModel& model_;
  std::vector<Capacity> capacities_ = {};
  Capacity max_capacity_ = {};
  LayerPass layers_;
  DeviceMemory memory_ = {};
  std::array<PinnedMemory, 2> host_input_ = {}, host_results_ = {};
  std::array<BatchResults, 2> results_ = {};  // in `host_results_`
  Buffers at_ = {};
  OwnStream stream_ = {};
  std::array<OwnStream, 4> sides_ = {};
  std::array<OwnEvent, 2> step_done_ = {};
  std::map<std::pair<const Capacity*, size_t>, std::unique_ptr<Graph>> graphs_ = {};

  size_t steps_ = 0, seen_ = 0;  // started, and whose results were read
  int rows_ = 0;                 // of all active texts
  std::vector<int> free_ = {};
  std::vector<ActiveText> active_ = {};
  std::vector<int> tokens_ = {}, policy_of_ = {};  // [slots]
  std::array<int, kMaxPolicies> policy_uses_ = {};
  std::vector<int> finished_ = {};
  InputTexts input_ = {};  // of the next step
};

}  // namespace exeunt::cuda
