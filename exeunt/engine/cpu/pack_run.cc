// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/pack_run.h"

#include <algorithm>
#include <functional>
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

PackRun::PackRun(const PackContext& context, WorkerPool::Worker& worker)
    : context_(context),
      model_(*context.model),
      space_(context.spaces[static_cast<size_t>(worker.index())]),
      forward_(model_, context.spaces, worker),
      heads_(model_, space_, worker) {}

bool PackRun::admits(const TextRun& text) const {
  if (empty()) return true;
  const auto tokens = static_cast<int>(text.text().ids.size());
  const int rows = forward_.row_count() + tokens;
  if (count_ == kMaxPackTexts || rows > context_.pack_rows || text.alone() || places_.front().text->alone())
    return false;
  if (with_deadline_ == 0 && text.deadline() == kNoDeadline) return true;
  const double row_seconds = context_.row_seconds->load(std::memory_order_relaxed);
  if (row_seconds <= 0) return false;
  Deadline first = text.deadline();
  for (const PackedText& other : texts()) first = std::min(first, other.text->deadline());
  // As if all texts ran through all layers together.
  const std::chrono::duration<double> need(row_seconds * rows * model_.spec.layers);
  return first - context_.now() > need;
}

void PackRun::add(std::unique_ptr<TextRun> text) {
  PackedText one{.text = std::move(text)};
  const bool timed = one.text->deadline() != kNoDeadline;
  const auto now = [&] { return timed ? context_.now() : Clock::time_point{}; };
  one.text->start(now());
  if (one.text->over(now())) return one.text->finish();
  forward_.embed(one.text->text());
  const int number = count_, tokens = forward_.tokens(number);
  const float* rows = forward_.rows(number);
  at(count_++) = std::move(one);
  with_deadline_ += timed ? 1 : 0;
  rows_since_ = 0;
  deliver({.layer = 0, .rows = {.first = rows, .all = rows, .tokens = tokens}}, at(number));
}

// At the start of a layer. Also measures the one before, with its exits.
Clock::time_point PackRun::begin_layer_clock() {
  if (with_deadline_ == 0) return {};
  const auto now = context_.now();
  if (rows_since_ > 0) {
    const double seconds = std::chrono::duration<double>(now - began_).count() / rows_since_;
    const double before = context_.row_seconds->load(std::memory_order_relaxed);
    context_.row_seconds->store(before > 0 ? before + (seconds - before) / 8 : seconds, std::memory_order_relaxed);
  }
  began_ = now;
  rows_since_ = 0;
  return now;
}

void PackRun::mark_expired(Clock::time_point now) {
  for (PackedText& one : texts()) one.exited = one.exited || one.text->over(now);
}

// A text may leave by its row 0 alone, and then its other rows need not be computed. All texts that may, or none: the
// weights are read again for the other rows.
int PackRun::choose_cls_first() {
  int chosen = 0, certain = 0;
  double saved = 0;
  for (int n = 0; n < count_; ++n) {
    const ExitVisit& visit = at(n).visit;
    if (!visit.first_row) continue;
    at(n).cls_first = context_.cls_first == ClsFirst::always || visit.certain || visit.leaves * forward_.tokens(n) > 1;
    if (!at(n).cls_first) continue;
    ++chosen;
    certain += visit.certain ? 1 : 0;
    saved += visit.leaves * forward_.tokens(n);
  }
  const bool pays = context_.cls_first == ClsFirst::always || certain == count_ ||
                    first_rows_pay(saved, first_row_cost(*model_.kernels, model_.precision) + chosen - 1);
  if (context_.cls_first != ClsFirst::never && pays) return chosen;
  for (PackedText& one : texts()) one.cls_first = false;
  return 0;
}

void PackRun::step() {
  mark_expired(begin_layer_clock());
  int layer = model_.spec.layers;
  for (const PackedText& one : texts()) layer = std::min(layer, one.layer);
  remove_exited(layer, Forward::When::before);
  if (empty()) return;
  // Texts at different depths share the one layer there is; then the least deep text says whether another follows.
  layer = model_.spec.layers;
  for (PackedText& one : texts()) {
    layer = std::min(layer, one.layer);
    one.visit = one.text->visit(++one.layer);
    one.cls_first = one.evaluated = false;
  }
  const int rows = forward_.row_count();
  if (const int chosen = choose_cls_first(); chosen > 0) {
    run_cls_first(layer, chosen);
    if (empty()) return;
    forward_.finish_layer(layer);
  } else {
    forward_.run_layer(layer);
  }
  rows_since_ = rows;
  evaluate_exits({});
  remove_exited(std::min(layer + 1, model_.spec.layers - 1), Forward::When::before);
}

void PackRun::run_cls_first(int layer, int chosen) {
  std::array<int, kMaxPackTexts> numbers = {};
  int next = 0;
  for (int n = 0; n < count_; ++n) {
    if (at(n).cls_first) numbers[static_cast<size_t>(next++)] = n;
  }
  const std::span<const int> first_of(numbers.data(), static_cast<size_t>(chosen));
  forward_.begin_layer(layer);
  forward_.run_first_rows(layer, first_of);
  evaluate_exits(first_of);
  const bool all_exit = std::all_of(texts().begin(), texts().end(), [](const PackedText& one) { return one.exited; });
  if (!all_exit) mark_expired(with_deadline_ > 0 ? context_.now() : Clock::time_point{});
  remove_exited(layer, Forward::When::within);
}

// Evaluates the exits after this layer: of the texts whose row 0 was computed first, or of all others. Texts at the
// same exit share a pass over its weights.
void PackRun::evaluate_exits(std::span<const int> first_of) {
  const auto outputs = static_cast<size_t>(model_.exits.outputs);
  std::array<LayerRows, kMaxPackTexts> rows = {};
  std::array<int, kMaxPackTexts> group = {};
  const int candidates = first_of.empty() ? count_ : static_cast<int>(first_of.size());
  const auto number = [&](int n) { return first_of.empty() ? n : first_of[static_cast<size_t>(n)]; };
  for (int n = 0; n < candidates; ++n) {
    if (at(number(n)).evaluated) continue;
    const int site = at(number(n)).visit.site;
    size_t size = 0;
    for (int m = n; m < candidates; ++m) {
      PackedText& one = at(number(m));
      if (one.evaluated || one.visit.site != site) continue;
      one.evaluated = true;
      const float* all = first_of.empty() ? forward_.rows(m) : nullptr;
      group[size] = number(m);
      rows[size++] = {
          .first = first_of.empty() ? all : forward_.first_row(m), .all = all, .tokens = forward_.tokens(number(m))};
    }
    if (site >= 0) {
      heads_.run(model_.exits.sites[static_cast<size_t>(site)], {rows.data(), size}, space_.logits, space_.lte);
    }
    for (size_t i = 0; i < size; ++i) {
      PackedText& one = at(group[i]);
      deliver({.layer = one.layer,
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

void PackRun::deliver(const LayerEnd& end, PackedText& one) noexcept {
  try {
    one.exited = one.text->after(end);
  } catch (...) {
    one.text->fail(std::current_exception());
    one.exited = true;
  }
}

// `layer`: as Forward::keep has it.
void PackRun::remove_exited(int layer, Forward::When when) {
  const auto exited = [](const PackedText& one) { return one.exited; };
  if (std::ranges::none_of(texts(), exited)) return;
  std::array<bool, kMaxPackTexts> stays = {};
  std::ranges::transform(texts(), stays.begin(), std::not_fn(exited));
  forward_.keep({stays.data(), texts().size()}, layer, when);
  for (PackedText& one : texts()) {
    if (!one.exited) continue;
    with_deadline_ -= one.text->deadline() != kNoDeadline ? 1 : 0;
    one.text->finish();
    one.text.reset();
  }
  const auto end = std::remove_if(texts().begin(), texts().end(), exited);
  count_ = static_cast<int>(end - texts().begin());
}

}  // namespace exeunt
