// SPDX-License-Identifier: Apache-2.0
// The label column of the user's own files: from what people write there to gold.
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

// A label as it is compared: without blanks around it, without case (of ASCII letters), and "1.0" as "1". What is
// written in two ways is one label.
[[nodiscard]] std::string label_key(std::string_view label);

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

}  // namespace exeunt
