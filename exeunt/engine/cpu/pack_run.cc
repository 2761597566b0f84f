// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/pack_run.h"

#include <algorithm>
#include <utility>

namespace exeunt {

bool first_rows_pay(double saved, double cost) noexcept {
  return saved > cost;
}

// Row 0 alone costs about as much as a block of rows, as the weights have to be read all the same. Tiles compute so
// much faster than memory brings weights that there it is as much as three blocks (measured on Sapphire Rapids).
double first_row_cost(const Kernels& kernels, Precision precision) noexcept {
  return (kernels.name == "amx" ? 3.0 : 1.25) * kernels.row_block(precision);
}

// Tiles wait for weights up to some 256 rows. Vector units are busy with far fewer, and a pack delays its first text.
int default_pack_rows(const Kernels& kernels, Precision precision) noexcept {
  if (kernels.name == "amx" && precision != Precision::fp32) return 256;
  return 64;
}

PackRun::PackRun(const PackGround& ground, Crew::Member& member)
    : ground_(ground),
      model_(*ground.model),
      space_(ground.spaces[static_cast<size_t>(member.index())]),
      forward_(model_, ground.spaces, member),
      heads_(model_, space_, member) {}

bool PackRun::admits(const TextRun& text) const {
  if (empty()) return true;
  const auto tokens = static_cast<int>(text.text().ids.size());
  const int rows = forward_.row_count() + tokens;
  if (count_ == kMostTexts || rows > ground_.pack_rows || text.alone() || places_.front().text->alone()) return false;
  if (timed_ == 0 && text.deadline() == kNoDeadline) return true;
  const double row_seconds = ground_.row_seconds->load(std::memory_order_relaxed);
  if (row_seconds <= 0) return false;
  Deadline first = text.deadline();
  for (const Aboard& other : texts()) first = std::min(first, other.text->deadline());
  // As if everybody went through all layers with everybody else.
  const std::chrono::duration<double> need(row_seconds * rows * model_.spec.layers);
  return first - ground_.now() > need;
}

void PackRun::add(std::unique_ptr<TextRun> text) {
  Aboard one{.text = std::move(text)};
  const bool timed = one.text->deadline() != kNoDeadline;
  const auto now = [&] { return timed ? ground_.now() : Clock::time_point{}; };
  one.text->start(now());
  if (one.text->over(now())) return one.text->finish();
  forward_.embed(one.text->text());
  const int number = count_, tokens = forward_.tokens(number);
  const float* rows = forward_.rows(number);
  at(count_++) = std::move(one);
  timed_ += timed ? 1 : 0;
  rows_since_ = 0;
  show({.layer = 0, .rows = {.first = rows, .all = rows, .tokens = tokens}}, at(number));
}

// At the start of a layer. Also measures the one before, with its exits.
Clock::time_point PackRun::begin_layer_clock() {
  if (timed_ == 0) return {};
  const auto now = ground_.now();
  if (rows_since_ > 0) {
    const double seconds = std::chrono::duration<double>(now - began_).count() / rows_since_;
    const double before = ground_.row_seconds->load(std::memory_order_relaxed);
    ground_.row_seconds->store(before > 0 ? before + (seconds - before) / 8 : seconds, std::memory_order_relaxed);
  }
  began_ = now;
  rows_since_ = 0;
  return now;
}

void PackRun::end_those_over(Clock::time_point now) {
  for (Aboard& one : texts()) one.leaves = one.leaves || one.text->over(now);
}

// A text may leave by its row 0 alone, and then its other rows need not be computed. All texts that may, or none: the
// weights are read again for the other rows.
int PackRun::choose_ahead() {
  int chosen = 0, certain = 0;
  double saved = 0;
  for (int n = 0; n < count_; ++n) {
    const ExitVisit& visit = at(n).visit;
    if (!visit.first_row) continue;
    at(n).ahead = ground_.cls_first == ClsFirst::always || visit.certain || visit.leaves * forward_.tokens(n) > 1;
    if (!at(n).ahead) continue;
    ++chosen;
    certain += visit.certain ? 1 : 0;
    saved += visit.leaves * forward_.tokens(n);
  }
  const bool pays = ground_.cls_first == ClsFirst::always || certain == count_ ||
                    first_rows_pay(saved, first_row_cost(*model_.kernels, model_.precision) + chosen - 1);
  if (ground_.cls_first != ClsFirst::never && pays) return chosen;
  for (Aboard& one : texts()) one.ahead = false;
  return 0;
}

void PackRun::step() {
  end_those_over(begin_layer_clock());
  int layer = model_.spec.layers;
  for (const Aboard& one : texts()) layer = std::min(layer, one.layer);
  drop_leavers(layer, Forward::When::before);
  if (empty()) return;
  // Texts at different depths share the one layer there is; then the least deep text says whether another follows.
  layer = model_.spec.layers;
  for (Aboard& one : texts()) {
    layer = std::min(layer, one.layer);
    one.visit = one.text->visit(++one.layer);
    one.ahead = one.seen = false;
  }
  const int rows = forward_.row_count();
  if (const int ahead = choose_ahead(); ahead > 0) {
    run_ahead(layer, ahead);
    if (empty()) return;
    forward_.finish_layer(layer);
  } else {
    forward_.run_layer(layer);
  }
  rows_since_ = rows;
  show_layer({});
  drop_leavers(std::min(layer + 1, model_.spec.layers - 1), Forward::When::before);
}

void PackRun::run_ahead(int layer, int chosen) {
  std::array<int, kMostTexts> numbers = {};
  int next = 0;
  for (int n = 0; n < count_; ++n) {
    if (at(n).ahead) numbers[static_cast<size_t>(next++)] = n;
  }
  const std::span<const int> first_of(numbers.data(), static_cast<size_t>(chosen));
  forward_.begin_layer(layer);
  forward_.run_first_rows(layer, first_of);
  show_layer(first_of);
  const bool all_leave = std::all_of(texts().begin(), texts().end(), [](const Aboard& one) { return one.leaves; });
  if (!all_leave) end_those_over(timed_ > 0 ? ground_.now() : Clock::time_point{});
  drop_leavers(layer, Forward::When::within);
}

// Shows the end of the layer to those who have not seen it: to the texts whose row 0 was computed ahead, or to all
// others. Texts at the same exit share a pass over its weights.
void PackRun::show_layer(std::span<const int> first_of) {
  const auto outputs = static_cast<size_t>(model_.exits.outputs);
  std::array<LayerRows, kMostTexts> rows = {};
  std::array<int, kMostTexts> group = {};
  const int candidates = first_of.empty() ? count_ : static_cast<int>(first_of.size());
  const auto number = [&](int n) { return first_of.empty() ? n : first_of[static_cast<size_t>(n)]; };
  for (int n = 0; n < candidates; ++n) {
    if (at(number(n)).seen) continue;
    const int site = at(number(n)).visit.site;
    size_t size = 0;
    for (int m = n; m < candidates; ++m) {
      Aboard& one = at(number(m));
      if (one.seen || one.visit.site != site) continue;
      one.seen = true;
      const float* all = first_of.empty() ? forward_.rows(m) : nullptr;
      group[size] = number(m);
      rows[size++] = {
          .first = first_of.empty() ? all : forward_.first_row(m), .all = all, .tokens = forward_.tokens(number(m))};
    }
    if (site >= 0) {
      heads_.run(model_.exits.sites[static_cast<size_t>(site)], {rows.data(), size}, space_.logits, space_.lte);
    }
    for (size_t i = 0; i < size; ++i) {
      Aboard& one = at(group[i]);
      show({.layer = one.layer,
            .rows = rows[i],
            .site = site,
            .logits = site < 0 ? nullptr : space_.logits + i * outputs,
            .lte = site < 0 ? 0 : space_.lte[i],
            .heads = &heads_,
            .ramp = space_.ramp},
           one);
    }
  }
}

void PackRun::show(const LayerEnd& end, Aboard& one) noexcept {
  try {
    one.leaves = one.text->after(end);
  } catch (...) {
    one.text->fail(std::current_exception());
    one.leaves = true;
  }
}

// `layer`: as Forward::keep has it.
void PackRun::drop_leavers(int layer, Forward::When when) {
  std::array<bool, kMostTexts> stays = {};
  bool all = true;
  for (int n = 0; n < count_; ++n) {
    stays[static_cast<size_t>(n)] = !at(n).leaves;
    all = all && !at(n).leaves;
  }
  if (all) return;
  forward_.keep({stays.data(), static_cast<size_t>(count_)}, layer, when);
  for (Aboard& one : texts()) {
    if (!one.leaves) continue;
    timed_ -= one.text->deadline() != kNoDeadline ? 1 : 0;
    one.text->finish();
    one.text.reset();
  }
  const auto end = std::remove_if(texts().begin(), texts().end(), [](const Aboard& one) { return one.leaves; });
  count_ = static_cast<int>(end - texts().begin());
}

}  // namespace exeunt
