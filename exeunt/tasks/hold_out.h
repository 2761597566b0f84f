// SPDX-License-Identifier: Apache-2.0
// Rows of the user's own file that are not learned: some to evaluate a model, some to certify a policy with. The latter
// are kept beside the model, so that `exeunt calibrate RUN` needs no more than the run.
#pragma once

#include <filesystem>
#include <string>

#include "exeunt/tasks/user_data.h"

namespace exeunt {

inline constexpr const char* kHeldOutFile = "held-out.csv";
// With fewer rows every one is needed for learning, and what could be measured on the rest would say nothing.
inline constexpr size_t kLeastToHoldOut = 50;

struct HeldOut {
  Dataset eval, certify;
};

// Takes about `share` of the rows out of `data`: a third of them to evaluate, two thirds to certify, at most 2,000 and
// 4,000. Each label gives its share; a text that occurs several times stays together; which rows they are depends on
// the texts alone. Nothing is taken from fewer than kLeastToHoldOut rows.
[[nodiscard]] HeldOut hold_out(Dataset& data, double share);

// Rows as CSV with the columns text, pair (where there is one) and label, and how such a file is read again.
[[nodiscard]] std::string held_out_text(const Dataset& data);
[[nodiscard]] UserColumns held_out_columns(const std::filesystem::path& path);

}  // namespace exeunt
