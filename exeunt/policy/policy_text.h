// SPDX-License-Identifier: Apache-2.0
// Policies as text: "entropy:0.3", "patience:6,tol=0.1", "window:0.1,8,bias_1". Numbers are written in the shortest
// form that reads back as the same float, so text and policy convert into each other without loss. Temperatures and the
// choice of exits are not part of the text; policy.json has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/policy/policy.h"

namespace exeunt {

// `where` names the file and field the text comes from; without one it came from the command line.
// Throws Error: bad_file with `where`, usage without. Errors for unknown names suggest the nearest known one.
[[nodiscard]] PolicySpec parse_policy(std::string_view text, std::string_view where = {});

[[nodiscard]] std::string str(const PolicySpec& spec);

// The shortest text that reads back as the same float; "0" for both zeros.
[[nodiscard]] std::string shortest(float value);

// A family of settings as one text, which is expanded into plain policy texts, so that a sweep knows no rule.
inline constexpr size_t kMaxSettings = 10'000;
inline constexpr size_t kMaxSweepText = 4096;              // bytes
inline constexpr size_t kMaxSweepBytes = size_t{1} << 22;  // of all settings written out

// Ranges ("entropy:0..0.7/0.05", both ends included; integers step by one without "/"), lists
// ("patience:3|4|5|6"), and every combination of them, in the order written. Throws Error (usage).
[[nodiscard]] std::vector<PolicySpec> parse_sweep(std::string_view text);

}  // namespace exeunt
