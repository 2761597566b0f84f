// SPDX-License-Identifier: Apache-2.0
// A batch that never closes, for models whose layers all have the same weights (ALBERT): before every layer texts join
// it, after every layer those that may leave do, and texts of all depths pass the layer together.
//
// The host starts one step (a layer and its exits) while the one before it runs, so it learns a step late who has left:
// what it takes for the number of rows is at least the device's.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/engine/cuda/batch_input.h"
#include "exeunt/engine/cuda/layer_pass.h"
#include "exeunt/engine/cuda/results.h"

namespace exeunt::cuda {

class OpenBatch final : public Results {
 public:
  // Room for `rows` rows; a text has at most the model's. The model mixes depths.
  OpenBatch(const DeviceModel& model, int rows);
  ~OpenBatch() override;
  OpenBatch(const OpenBatch&) = delete;
  OpenBatch& operator=(const OpenBatch&) = delete;

  [[nodiscard]] int texts() const noexcept { return static_cast<int>(under_way_.size()); }
  [[nodiscard]] int rows() const noexcept { return rows_; }
  // Lets a text join with the next step. Its slot; none: there is no room now. An empty batch takes any text.
  [[nodiscard]] std::optional<int> add(const Encoding& text, const Wish& wish);
  // Starts a step, and returns.
  void step();
  // Waits for the step before the one that was started last. The slots that it freed; their results, and these, stay
  // until the next step.
  [[nodiscard]] std::span<const int> finished();

  [[nodiscard]] int left(int slot) const override;
  [[nodiscard]] const float* logits(int slot, int site) const override;
  [[nodiscard]] float lte(int slot, int site) const override;
  [[nodiscard]] const float* ramp(int slot) const override;  // there is none

 private:
  struct ResultLayout {
    size_t left = 0, logits = 0, lte = 0, bytes = 0;
  };
  struct Buffers {
    std::byte *rows = nullptr, *embedded = nullptr, *fresh = nullptr, *input = nullptr, *results = nullptr,
              *firsts = nullptr;
    std::array<TextList, 2> lists = {};  // they take turns
    SlotAsk* asks = nullptr;
    float *state = nullptr, *vectors = nullptr, *hidden = nullptr;
    int *depth = nullptr, *first_row = nullptr, *site_after = nullptr, *place = nullptr, *site = nullptr,
        *leaves = nullptr, *from = nullptr;
    Live* site_live = nullptr;
    SeatedExit* exits = nullptr;
    unsigned* arrived = nullptr;
  };
  struct UnderWay {
    int slot = 0;
    size_t joined = 0;  // with this step
  };
  void plan_memory();
  void upload_tables();
  void enqueue(const Room& room, size_t turn);
  void enqueue_joining(const Room& room, const TextList& list);
  void enqueue_exits(const Room& room, size_t turn);
  [[nodiscard]] int width() const { return model_.poolers[count(*model_.exits.sites.front().pooler)].outputs; }
  void forget_policy(int index);

  const DeviceModel& model_;
  std::vector<Room> rooms_ = {};
  Room most_ = {};
  int state_floats_;
  LayerPass layers_;
  ResultLayout result_layout_ = {};
  DeviceMemory memory_ = {};
  std::array<PinnedMemory, 2> host_input_ = {}, host_results_ = {};
  Buffers at_ = {};
  OwnStream stream_ = {};
  std::array<OwnStream, 4> sides_ = {};
  std::array<OwnEvent, 2> ended_ = {};
  std::map<std::pair<const Room*, size_t>, std::unique_ptr<Graph>> graphs_ = {};

  size_t steps_ = 0, seen_ = 0;  // started, and whose results were looked at
  int rows_ = 0;                 // of all that may be under way
  std::vector<int> free_ = {};
  std::vector<UnderWay> under_way_ = {};
  std::vector<int> tokens_ = {}, policy_of_ = {};  // [slots]
  std::array<const Policy*, kMostPolicies> policies_ = {};
  std::array<int, kMostPolicies> policy_uses_ = {};
  std::vector<int> finished_ = {};
  // Of the next step:
  std::vector<const Encoding*> encodings_ = {};
  std::vector<int> slots_ = {};
  std::vector<SlotAsk> asks_ = {};
};

}  // namespace exeunt::cuda
