// SPDX-License-Identifier: Apache-2.0
// From the text in a label column to gold: a label's index by its name, or a number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exeunt {

inline constexpr size_t kMaxLabels = 65536;

// A finite number, optionally surrounded by spaces; nothing otherwise.
[[nodiscard]] std::optional<double> parse_number(std::string_view text) noexcept;

// The default label order: by value if all are whole numbers, else by bytes. The same set of labels gives the same
// order whatever the order of the rows.
void sort_labels(std::vector<std::string>& labels);

// Index of a label by its name. Throws Error bad_file that says `where`, what was found, what is known, the nearest.
class LabelIndex {
 public:
  explicit LabelIndex(std::vector<std::string> labels);
  [[nodiscard]] bool has(std::string_view label) const { return index_.contains(label); }
  [[nodiscard]] float gold(std::string_view label, std::string_view where) const;

 private:
  std::vector<std::string> labels_;
  std::map<std::string, size_t, std::less<>> index_;
};

// A regression value. Throws Error bad_file if it is not a number, does not fit a float, or is outside `range`.
[[nodiscard]] float gold_value(std::string_view text, const std::optional<std::pair<double, double>>& range,
                               std::string_view where);

}  // namespace exeunt
