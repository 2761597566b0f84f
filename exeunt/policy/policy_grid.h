// SPDX-License-Identifier: Apache-2.0
// A family of settings as one text. It is expanded into plain policy texts, so a sweep knows no rule.
#pragma once

#include <string_view>
#include <vector>

#include "exeunt/policy/policy.h"

namespace exeunt {

inline constexpr size_t kMaxSettings = 10'000;
inline constexpr size_t kMaxSweepText = 4096;              // bytes
inline constexpr size_t kMaxSweepBytes = size_t{1} << 22;  // of all settings written out

// Ranges ("entropy:0..0.7/0.05", both ends included; integers step by one without "/"), lists
// ("patience:3|4|5|6"), and every combination of them, in the order written. Throws Error (usage).
[[nodiscard]] std::vector<PolicySpec> parse_sweep(std::string_view text);

}  // namespace exeunt
