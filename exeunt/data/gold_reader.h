// SPDX-License-Identifier: Apache-2.0
// The label columns of the user's files: from what is written there to gold.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/data/labels.h"
#include "exeunt/data/user_data.h"

namespace exeunt {

inline constexpr float kNoGold = std::numeric_limits<float>::quiet_NaN();

// Does it look like a value that is missing: "NA", "nan", "null" …, in the spellings that pandas and R write?
[[nodiscard]] bool looks_missing(std::string_view label);

// Collects labels. If neither labels nor the problem type are given, all rows must be read before gold is known: read()
// then records each row's label, and finish() fills in gold.
class GoldReader {
 public:
  explicit GoldReader(const UserColumns& columns);

  // One call for each example that is kept, in order. Throws Error bad_file for a label that cannot be used.
  [[nodiscard]] float read(std::string_view label, std::string_view where);

  // Fills labels, gold and range in, and says in the notices what was left out of labels, and which
  // spellings were taken for the same one.
  void finish(Dataset& data, std::string_view where);

 private:
  struct Label {
    std::map<std::string, int64_t, std::less<>> spellings;  // and how many rows have each
  };

  [[nodiscard]] size_t label_of(std::string_view label, std::string_view where);
  [[nodiscard]] bool looks_like_numbers() const;
  void finish_regression(Dataset& data) const;
  void finish_labels(Dataset& data, std::string_view where) const;
  void say_joined(Dataset& data, std::string_view where, const std::vector<std::string>& names) const;
  void say_several(Dataset& data, std::string_view where, const std::vector<std::string>& names) const;
  [[nodiscard]] std::vector<std::string> names() const;

  std::optional<Problem> problem_;
  bool skip_bad_ = false;
  std::vector<std::string> given_;
  std::optional<LabelIndex> exact_;                    // of those given
  std::map<std::string, size_t, std::less<>> by_key_;  // given: of those whose key is theirs alone
  std::vector<Label> labels_;
  std::vector<size_t> rows_;  // per row, its label in labels_
  int64_t with_blanks_ = 0;   // rows
};

// "a|b" as two labels; blanks around them do not count, and nothing at all is no label.
[[nodiscard]] std::vector<std::string> split_labels(std::string_view text);

// A column of one label: 1 or true, 0, false or nothing. Throws Error (bad_file) for anything else.
[[nodiscard]] bool is_given(std::string_view field, std::string_view where);

// Of rows that may have several labels: collects them, those of the columns first. A row's indices are final after
// finish().
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
