// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/labels.h"

#include <algorithm>
#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/rows.h"

namespace exeunt {

std::optional<double> parse_number(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  return number_of<double>(text);
}

void sort_labels(std::vector<std::string>& labels) {
  const auto whole = [](const std::string& label) {
    const auto value = parse_number(label);
    return value && *value == std::floor(*value);
  };
  const bool numbers = std::all_of(labels.begin(), labels.end(), whole);
  std::sort(labels.begin(), labels.end(), [&](const std::string& a, const std::string& b) {
    if (numbers && *parse_number(a) != *parse_number(b)) return *parse_number(a) < *parse_number(b);
    return a < b;  // "1" and "01" are two labels
  });
}

LabelIndex::LabelIndex(std::vector<std::string> labels) : labels_(std::move(labels)) {
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (!index_.emplace(labels_[i], i).second) {
      throw Error(Code::usage, fmt::format("duplicate label {} in the list of labels", shown(labels_[i])));
    }
  }
}

float LabelIndex::gold(std::string_view label, std::string_view where) const {
  const auto found = index_.find(label);
  if (found != index_.end()) return static_cast<float>(found->second);
  constexpr size_t kShown = 8;
  const std::vector<std::string> first(labels_.begin(),
                                       labels_.begin() + static_cast<int64_t>(std::min(kShown, labels_.size())));
  const std::string best = nearest(label, labels_);
  throw Error(Code::bad_file,
              fmt::format("{}: got label {}, want one of {}{}", where, shown(label), fmt::join(first, ", "),
                          labels_.size() > kShown ? fmt::format(" … ({} labels)", labels_.size()) : ""),
              best.empty() ? "check that this is the label column and that the row has all its columns"
                           : fmt::format("did you mean '{}'?", best));
}

float gold_value(std::string_view text, const std::optional<std::pair<double, double>>& range, std::string_view where) {
  const auto value = parse_number(text);
  if (!value || !std::isfinite(static_cast<float>(*value))) {
    throw_bad_file(where, "got {}, want a finite number", shown(text));
  }
  if (range && (*value < range->first || *value > range->second)) {
    throw_bad_file(where, "got {}, want a number from {} to {}", *value, range->first, range->second);
  }
  return static_cast<float>(*value);
}

}  // namespace exeunt
