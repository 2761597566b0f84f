// SPDX-License-Identifier: Apache-2.0
// The hold-out split of the user's file: some rows to evaluate a model, some to certify a policy. The latter are stored
// with the model, so that `exeunt calibrate RUN` needs only the run.
#pragma once

#include <filesystem>
#include <string>

#include "exeunt/data/user_data.h"

namespace exeunt {

inline constexpr const char* kHeldOutFile = "held-out.csv";
inline constexpr const char* kHeldOutSplit = "held-out";  // Dataset::split of its rows
// With fewer rows, all are needed for training, and a measurement on the rest would be meaningless.
inline constexpr size_t kLeastToHoldOut = 50;

struct HeldOut {
  Dataset eval, certify;
};

// Takes about `share` of the rows out of `data`: a third of them to evaluate, two thirds to certify, at most 2,000 and
// 4,000. The split is stratified by label, keeps duplicate texts and clusters together, and
// depends on the texts alone. Nothing is held out from fewer than kLeastToHoldOut rows.
[[nodiscard]] HeldOut hold_out(Dataset& data, double share);

// Rows as CSV with the columns text, pair (if there is one), cluster (if one was named) and label.
[[nodiscard]] std::string held_out_text(const Dataset& data);
// Those of a model folder, read beneath it; `columns` says what the labels are. Throws Error bad_file.
[[nodiscard]] Dataset read_held_out(const std::filesystem::path& folder, UserColumns columns);

}  // namespace exeunt
