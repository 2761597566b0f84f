// SPDX-License-Identifier: Apache-2.0
// Rows drawn into the parts of a calibration: requests, which are independent draws even where their texts are equal,
// or distinct texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/eval/measure.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Where the rows of a part come from. Empty = not known.
struct PartRows {
  std::vector<size_t> row;  // of the trace that was split
};

struct CalibrationData {
  ExitTrace fit, certify, report;  // `report` may have no rows
  PartRows fit_rows = {}, certify_rows = {}, report_rows = {};
  std::optional<uint64_t> seed = {};
};

struct SplitShares {
  double fit = 0.2, certify = 0.6;  // the rest reports
  // Of the binomial test to come: about its share certifies, a number of rows none of which is in vain. 0: not known.
  double max_drop = 0, delta = 0;
  bool distinct = false;   // equal texts are one row of one part, so that each counts once
  bool questions = false;  // that test counts clusters
};
inline constexpr SplitShares kNoReport{.fit = 0.2, .certify = 0.8};

[[nodiscard]] size_t distinct_rows(const ExitTrace& trace);  // by their hashes; all where they have none
// The rows of a trace (its distinct texts, by the first row of each, if asked), drawn at random by `seed` into three
// parts, at least one row each, those of a cluster into one; two parts where the shares leave nothing to report.
[[nodiscard]] CalibrationData split_for_calibration(const ExitTrace& trace, uint64_t seed, SplitShares shares = {});

// Groups of texts in each of which a promise is tested separately: by label, by length, or by a column of the data.
inline constexpr size_t kMaxGroups = 64;

struct GroupPlan {
  std::string by = {};                   // "label", "length", "exit", or the name of a column; empty = no groups
  std::vector<std::string> values = {};  // of the column, for every row of the trace that was split
};

// How texts are grouped: decided once, without a look at the losses of the rows that test.
class Grouping {
 public:
  // By label: the gold label if every text has one, else the answer at full depth; a text with several is in the group
  // of each, one with none in no group. By length: quarters of the fit part. By exit: nothing, as that depends on the
  // policy (Settled::by_exit). Throws Error (usage) where the data does
  // not have what to group by, or has more than kMaxGroups groups.
  Grouping(const GroupPlan& plan, const CalibrationData& data);

  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  // The rows of each group in a part; nothing if there are no groups. Every group is tested separately and all must
  // pass, so that groups may share rows.
  [[nodiscard]] std::vector<std::vector<size_t>> rows_of(const ExitTrace& part, const PartRows& rows) const;

 private:
  [[nodiscard]] size_t group_of(const ExitTrace& part, const PartRows& rows, size_t row) const;
  [[nodiscard]] bool has(const ExitTrace& part, size_t row, int label) const;  // of several

  const GroupPlan& plan_;
  std::vector<std::string> names_;
  std::vector<int32_t> least_;  // by length: tokens of each group's shortest text
  bool gold_ = false;           // by label: of the data
  bool multi_label_ = false;    // by label
};

// Which rows of a trace may test a promise: those whose texts the model has not learned.
// Removes the rows that the model was trained on; if `strict`, those that contain or are contained in a learned text,
// too. From traces of several models over the same rows, rows that any model learned are removed. Notices say how many,
// or that it is not known what a model learned. Throws Error (usage) if most of the rows were learned, or none is left.
void keep_new_rows(std::span<ExitTrace* const> traces, bool strict, const Observer& observer);

// That scores on a trace are too good, because the model learned some of its rows; empty where it did not.
[[nodiscard]] std::string learned_text(const ExitTrace& trace);

}  // namespace exeunt
