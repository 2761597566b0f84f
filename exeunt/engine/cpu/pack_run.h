// SPDX-License-Identifier: Apache-2.0
// Several texts at once through the layers: one pass over the weights of a layer serves all of them. Exits are per
// text, and its rows are free as soon as it leaves. An answer does not depend on the other texts.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "exeunt/engine/cpu/exit_heads.h"
#include "exeunt/engine/cpu/forward.h"
#include "exeunt/engine/cpu/text_run.h"

namespace exeunt {

// What all packs of an engine share.
struct PackContext {
  const PackedModel* model = nullptr;
  std::span<Workspace> spaces = {};
  int pack_rows = 1;  // a pack of several texts has at most so many rows
  ClsFirst cls_first = ClsFirst::automatic;
  Clock::time_point (*now)() = &Clock::now;
  // Seconds that one row takes in one layer, measured where texts have deadlines; 0: not yet known.
  std::atomic<double>* row_seconds = nullptr;
};

class PackRun {
 public:
  PackRun(const PackContext& context, WorkerPool::Worker& worker);

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // Whether texts may join while others are in deeper layers: if all layers have the same weights.
  [[nodiscard]] bool admits_midway() const noexcept { return context_.model->layers.size() == 1; }
  // Whether `text` may join: there is space, and no text would miss its deadline. An empty pack takes any text. Where
  // the length is not known before prepare(), ask again.
  [[nodiscard]] bool admits(const TextRun& text) const;
  void add(std::unique_ptr<TextRun> text);  // prepared
  // All texts one layer further; those that are done leave.
  void step();

 private:
  struct PackedText {
    std::unique_ptr<TextRun> text = {};
    int layer = 0;  // layers run
    ExitVisit visit = {};
    bool cls_first = false;  // row 0 is computed before the others
    bool evaluated = false;  // after this layer
    bool exited = false;
  };
  [[nodiscard]] PackedText& at(int text) noexcept { return places_[static_cast<size_t>(text)]; }
  [[nodiscard]] std::span<PackedText> texts() noexcept { return {places_.data(), static_cast<size_t>(count_)}; }
  [[nodiscard]] std::span<const PackedText> texts() const noexcept {
    return {places_.data(), static_cast<size_t>(count_)};
  }

  [[nodiscard]] Clock::time_point begin_layer_clock();
  void mark_expired(Clock::time_point now);
  int choose_cls_first();  // how many
  void run_cls_first(int layer, int chosen);
  void evaluate_exits(std::span<const int> first_of);
  void deliver(const LayerEnd& end, PackedText& text) noexcept;
  void remove_exited(int layer, Forward::When when);

  const PackContext& context_;
  const PackedModel& model_;
  Workspace& space_;
  Forward forward_;
  ExitHeads heads_;
  std::array<PackedText, kMaxPackTexts> places_ = {};
  int count_ = 0;          // of `places_` in use, by texts numbered as in `forward_`
  int with_deadline_ = 0;  // texts that have one
  // When the last layer began, and its rows; 0: there is none to measure.
  Clock::time_point began_ = {};
  int rows_since_ = 0;
};

// Whether to compute row 0 of some texts before the others. `saved` is the number of rows that need not be computed, on
// average, because their texts leave; `cost` is that of the first rows alone, in rows computed together.
[[nodiscard]] bool first_rows_pay(double saved, double cost) noexcept;
[[nodiscard]] double first_row_cost(const Kernels& kernels, Precision precision) noexcept;

// How many rows make a pack where nobody has measured it.
[[nodiscard]] int default_pack_rows(const Kernels& kernels, Precision precision) noexcept;

}  // namespace exeunt
