// SPDX-License-Identifier: Apache-2.0
// Groups of texts in each of which a promise is tested on its own: by label, by length, or by a column of the data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/certify/split.h"

namespace exeunt {

inline constexpr size_t kMaxGroups = 64;

struct GroupPlan {
  std::string by = {};                   // "label", "length", or the name of a column; empty = no groups
  std::vector<std::string> values = {};  // of the column, for every row of the trace that was split
};

// How texts are grouped: decided once, without a look at the losses of the rows that test.
class Grouping {
 public:
  // By label: the gold label if every text has one, else the answer at full depth; a text with several is in the group
  // of each, one with none in no group. By length: quarters of the fit part. Throws Error (usage) where the data does
  // not know what to group by, or has more than kMaxGroups groups.
  Grouping(const GroupPlan& plan, const CalibrationData& data);

  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  // The rows of each group in a part; nothing if there are no groups. Every group is tested on its own and all must
  // pass, so that groups may share rows.
  [[nodiscard]] std::vector<std::vector<size_t>> rows_of(const ExitTrace& part, const PartRows& rows) const;

 private:
  [[nodiscard]] size_t group_of(const ExitTrace& part, const PartRows& rows, size_t row) const;
  [[nodiscard]] bool has(const ExitTrace& part, size_t row, int label) const;  // of several

  const GroupPlan& plan_;
  std::vector<std::string> names_;
  std::vector<int32_t> least_;  // by length: tokens of each group's shortest text
  bool gold_ = false;           // by label: of the data
  bool several_ = false;        // by label: at once
};

}  // namespace exeunt
