// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/ranges.h>

namespace exeunt {
namespace {

constexpr size_t kLongest = 64, kMostCompared = 1000, kMostShown = 100;

}  // namespace

// One row of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  // Not a typo, or too much to look through: a file of bad rows asks for each of them.
  if (word.size() > kLongest || known.size() > kMostCompared) return {};
  const size_t limit = std::max<size_t>(2, word.size() / 3);
  const std::string* best = nullptr;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > word.size() + limit) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string{} : *best;
}

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  const std::string best = nearest(word, known);
  if (!best.empty()) return fmt::format("did you mean '{}'?", best);
  const auto first = known.first(std::min(known.size(), kMostShown));
  const std::string rest = known.size() > kMostShown ? fmt::format(" … ({} in all)", known.size()) : "";
  return fmt::format("known: {}{}", fmt::join(first, ", "), rest);
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace exeunt
