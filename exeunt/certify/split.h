// SPDX-License-Identifier: Apache-2.0
// Rows drawn into the parts of a calibration. Equal texts are one row of one part: tests count independent draws, and a
// text that was seen while choosing must not certify.
#pragma once

#include <cstdint>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

// Where the rows of a part come from. Empty = not known: every row is a text of its own.
struct PartRows {
  std::vector<size_t> row;   // of the trace that was split
  std::vector<int> repeats;  // how often that trace has this text
};

struct CalibrationData {
  ExitTrace fit, certify, report;  // distinct texts; `report` may have no rows
  PartRows fit_rows = {}, certify_rows = {}, report_rows = {};
  std::optional<uint64_t> seed = {};
};

struct SplitShares {
  double fit = 0.2, certify = 0.6;  // the rest reports
};
inline constexpr SplitShares kNoReport{.fit = 0.2, .certify = 0.8};

// The distinct texts of a trace (by its row hashes; else every row), drawn at random by `seed` into three parts, at
// least one row each; two parts where the shares leave nothing to report. Of equal texts the first row stands for all.
[[nodiscard]] CalibrationData split_for_calibration(const ExitTrace& trace, uint64_t seed, SplitShares shares = {});

}  // namespace exeunt
