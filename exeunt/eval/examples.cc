// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/examples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "exeunt/exits/evidence.h"

namespace exeunt {
namespace {

constexpr size_t kShownCharacters = 240;

std::string answer_text(const ExitTrace& trace, std::span<const float> logits) {
  if (trace.info.regression) return fmt::format("{:.3f}", logits[0]);
  const auto label = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  return label < trace.info.labels.size() ? trace.info.labels[label] : fmt::format("{}", label);
}

std::string gold_text(const ExitTrace& trace, float gold) {
  if (std::isnan(gold)) return {};
  if (trace.info.regression) return fmt::format("{:.3f}", gold);
  const auto label = static_cast<size_t>(gold);
  return label < trace.info.labels.size() ? trace.info.labels[label] : fmt::format("{}", label);
}

// Cut at a whole character.
std::string shortened(std::string text) {
  if (text.size() <= kShownCharacters) return text;
  size_t end = kShownCharacters;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

ExampleSets pick_examples(const ExitTrace& trace, const Departures& departures,
                          const std::function<std::string(int64_t)>& text, size_t most) {
  const auto row_of = [&](size_t row) {
    const int exit = departures.exit[row];
    const std::string known = text ? text(trace.index[row]) : std::string{};
    ExampleRow out{.text = known.empty() ? fmt::format("row {}", trace.index[row]) : shortened(known),
                   .layer = trace.info.layers[static_cast<size_t>(exit)],
                   .answer = answer_text(trace, trace.at(row, exit)),
                   .full_depth = answer_text(trace, trace.at(row, trace.exits - 1)),
                   .gold = gold_text(trace, trace.gold[row]),
                   .right = std::nullopt};
    if (!out.gold.empty() && !trace.info.regression) out.right = out.answer == out.gold;
    return out;
  };
  const auto entropy_at_exit = [&](size_t row) {
    return weigh(Reading{trace.at(row, departures.exit[row]).data(), trace.width, 1.0F, 0.0F}).entropy;
  };
  std::vector<size_t> order(trace.rows);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (departures.exit[a] != departures.exit[b]) return departures.exit[a] < departures.exit[b];
    const float left = entropy_at_exit(a), right = entropy_at_exit(b);
    return left != right ? left < right : a < b;
  });
  ExampleSets sets;
  for (size_t i = 0; i < order.size() && sets.early.size() < most; ++i) sets.early.push_back(row_of(order[i]));
  for (size_t i = order.size(); i-- > 0 && sets.late.size() < most;) sets.late.push_back(row_of(order[i]));
  // First what full depth would have had right: those are what leaving early cost.
  for (const bool cost : {true, false}) {
    for (size_t i = 0; i < order.size() && sets.wrong.size() < most && !trace.info.regression; ++i) {
      ExampleRow row = row_of(order[i]);
      const bool costs = !row.gold.empty() && row.full_depth == row.gold;
      if (row.answer != row.full_depth && costs == cost) sets.wrong.push_back(std::move(row));
    }
  }
  return sets;
}

}  // namespace exeunt
