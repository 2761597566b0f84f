// SPDX-License-Identifier: Apache-2.0
// The labels of rows that may have several at once: from what people write to indices.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/data/user_data.h"

namespace exeunt {

// "a|b" as two labels; blanks around them do not count, and nothing at all is no label.
[[nodiscard]] std::vector<std::string> split_labels(std::string_view text);

// A column of one label: 1 or true, 0, false or nothing. Throws Error (bad_file) for anything else.
[[nodiscard]] bool is_given(std::string_view field, std::string_view where);

// Collects labels, those of the columns first. A row's indices are final after finish().
class SetReader {
 public:
  explicit SetReader(const UserColumns& columns);

  // Throws Error (bad_file) for a label that is not one of those named.
  [[nodiscard]] std::vector<int> read(const std::vector<std::string>& labels, std::string_view where);

  // Names the labels, in the order they were given, else by bytes, and moves each row's indices to that order.
  void finish(Dataset& data, std::string_view where) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> place_;
  bool given_;  // names are given: others are refused
};

}  // namespace exeunt
