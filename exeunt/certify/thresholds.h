// SPDX-License-Identifier: Apache-2.0
// The thresholds of a multi-label model: given by the user, or fitted on labelled rows. Kept as logit_thresholds, the
// corresponding logits (outputs/evidence.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Rows with a label, and rows without it, below which its threshold is not fitted: few rows would choose by chance.
inline constexpr int64_t kFewestToFit = 10;

struct FittedThreshold {
  float logit = 0;                 // the threshold
  bool fitted = false;             // else the one it had, for want of rows
  int64_t texts = 0, without = 0;  // labelled rows that have the label, and that do not
  double before = 0, after = 0;    // F1 of the label on these rows
};

// For each label the threshold with the best F1 at full depth over the rows that have gold; together they have the best
// macro F1. The one that a label has stays where no other is better. The trace is multi_label.
[[nodiscard]] std::vector<FittedThreshold> fit_thresholds(const ExitTrace& trace);

// "0.3" for every label, "0.3,0.5,0.4" for each in its place, or "rude=0.3,loud=0.6" for those named, the others
// keeping `present` (empty = one half). Empty if all are one half. Throws Error (usage).
[[nodiscard]] std::vector<float> parse_thresholds(std::string_view text, const std::vector<std::string>& labels,
                                                  const std::vector<float>& present);

// "calm 0.31, rude 0.5": every label's threshold; no logit_thresholds = one half.
[[nodiscard]] std::string thresholds_by_label(const std::vector<std::string>& labels,
                                              const std::vector<float>& logit_thresholds);

// The same multi-label model with other logit thresholds (outputs/evidence.h). Throws Error.
[[nodiscard]] Checkpoint with_logit_thresholds(const Checkpoint& model, std::vector<float> logit_thresholds);

// The model with the thresholds of `text`, as parse_thresholds() takes them; as it is, if that is empty. Throws Error
// (usage), also for a model that gives one answer.
[[nodiscard]] Checkpoint with_thresholds(const Checkpoint& model, std::string_view text);

}  // namespace exeunt
