// SPDX-License-Identifier: Apache-2.0
// Several texts at once through the layers: one pass over the weights of a layer serves all of them. Exits are per
// text, and a text that leaves makes room at once. What a text answers does not depend on the others.
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
struct PackGround {
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
  PackRun(const PackGround& ground, Crew::Member& member);

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // Whether texts may join those that are under way: if all layers have the same weights.
  [[nodiscard]] bool takes_newcomers() const noexcept { return ground_.model->layers.size() == 1; }
  // Whether `text` may join: there is room, and nobody would miss a deadline by it. An empty pack takes any text. Where
  // the length is not yet known, ask again.
  [[nodiscard]] bool admits(const TextRun& text) const;
  void add(std::unique_ptr<TextRun> text);  // prepared
  // All texts one layer further; those that are done leave.
  void step();

 private:
  struct Aboard {
    std::unique_ptr<TextRun> text = {};
    int layer = 0;  // layers run
    ExitVisit visit = {};
    bool ahead = false;  // row 0 is computed before the others
    bool seen = false;   // it has seen the end of this layer
    bool leaves = false;
  };
  [[nodiscard]] Aboard& at(int text) noexcept { return places_[static_cast<size_t>(text)]; }
  [[nodiscard]] std::span<Aboard> texts() noexcept { return {places_.data(), static_cast<size_t>(count_)}; }
  [[nodiscard]] std::span<const Aboard> texts() const noexcept { return {places_.data(), static_cast<size_t>(count_)}; }

  [[nodiscard]] Clock::time_point begin_layer_clock();
  void end_those_over(Clock::time_point now);
  int choose_ahead();  // how many
  void run_ahead(int layer, int chosen);
  void show_layer(std::span<const int> first_of);
  void show(const LayerEnd& end, Aboard& text) noexcept;
  void drop_leavers(int layer, Forward::When when);

  const PackGround& ground_;
  const PackedModel& model_;
  Workspace& space_;
  Forward forward_;
  ExitHeads heads_;
  std::array<Aboard, kMostTexts> places_ = {};
  int count_ = 0;  // of them are taken, by texts numbered as in `forward_`
  int timed_ = 0;  // texts aboard that have a deadline
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
