// SPDX-License-Identifier: Apache-2.0
// Policies as text: "entropy:0.3", "patience:6,tol=0.1", "window:0.1,8,bias_1". Numbers are written in the shortest
// form that reads back as the same float, so text and policy go back and forth without loss. Temperatures and the
// choice of exits are no part of the text; policy.json keeps them beside it.
#pragma once

#include <string>
#include <string_view>

#include "exeunt/exits/policy.h"

namespace exeunt {

// `where` names the file and field the text comes from; without one it came from the command line.
// Throws Error: bad_file with `where`, usage without. Unknown names are answered with the nearest known one.
[[nodiscard]] PolicySpec parse_policy(std::string_view text, std::string_view where = {});

[[nodiscard]] std::string str(const PolicySpec& spec);

}  // namespace exeunt
