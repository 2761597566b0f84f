// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/new_rows.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/data/learned_rows.h"

namespace exeunt {
namespace {

// For each row, the most that any of the models learned of it.
std::vector<Overlap> overlaps(std::span<ExitTrace* const> traces) {
  std::vector<Overlap> most(traces.front()->rows);
  for (const ExitTrace* trace : traces) {
    for (size_t row = 0; row < std::min(trace->learned.size(), most.size()); ++row)
      most[row] = std::max(most[row], static_cast<Overlap>(trace->learned[row]));
  }
  return most;
}

}  // namespace

void keep_new_rows(std::span<ExitTrace* const> traces, bool strict, const Observer& observer) {
  const size_t rows = traces.front()->rows;
  if (std::any_of(traces.begin(), traces.end(), [](const ExitTrace* trace) { return trace->learned.empty(); }))
    observer.notice("training texts unknown: cannot rule out that the model was trained on these texts");
  const std::vector<Overlap> most = overlaps(traces);
  const auto equal = std::count(most.begin(), most.end(), Overlap::equal);
  const auto partial = std::count(most.begin(), most.end(), Overlap::partial);
  std::vector<size_t> kept;
  for (size_t row = 0; row < rows; ++row) {
    if (most[row] == Overlap::none || (most[row] == Overlap::partial && !strict)) kept.push_back(row);
  }
  if (2 * static_cast<size_t>(equal) > rows || (kept.empty() && rows > 0)) {
    throw Error(Code::usage,
                fmt::format("the model learned {} of these {} texts{}: they say nothing about new ones", equal, rows,
                            strict && partial > 0 ? fmt::format(", and parts of {} more", partial) : ""),
                "bring texts that it was not trained on, such as those that training held out or --split dev");
  }
  if (equal > 0) observer.notice(fmt::format("{} of {} texts are left out: the model learned them", equal, rows));
  if (partial > 0) {
    observer.notice(fmt::format("{} of {} texts contain one that the model learned, or are part of one{}", partial,
                                rows, strict ? ": left out" : "; --strict-new leaves them out"));
  }
  if (kept.size() == rows) return;
  for (ExitTrace* trace : traces) {
    if (trace->rows == rows) *trace = select_rows(*trace, kept);  // others are refused where runs are compared
  }
}

std::string learned_text(const ExitTrace& trace) {
  const auto equal = std::count(trace.learned.begin(), trace.learned.end(), static_cast<uint8_t>(Overlap::equal));
  if (equal == 0) return {};
  return fmt::format("the model learned {} of these {} texts: scores on them say nothing about new ones", equal,
                     trace.rows);
}

}  // namespace exeunt
