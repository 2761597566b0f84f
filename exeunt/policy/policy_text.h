// SPDX-License-Identifier: Apache-2.0
// Policies as text: "entropy:0.3", "patience:6,tol=0.1", "window:0.1,8,bias_1". Numbers are written in the shortest
// form that reads back as the same float, so text and policy convert into each other without loss. Temperatures and the
// choice of exits are not part of the text; policy.json has them.
#pragma once

#include <string>
#include <string_view>

#include "exeunt/policy/policy.h"

namespace exeunt {

// `where` names the file and field the text comes from; without one it came from the command line.
// Throws Error: bad_file with `where`, usage without. Errors for unknown names suggest the nearest known one.
[[nodiscard]] PolicySpec parse_policy(std::string_view text, std::string_view where = {});

[[nodiscard]] std::string str(const PolicySpec& spec);

// The shortest text that reads back as the same float; "0" for both zeros.
[[nodiscard]] std::string shortest(float value);

// A policy text, and its origin for error messages. Rejects texts of absurd length.
class PolicySource {
 public:
  PolicySource(std::string_view text, std::string_view where);
  [[noreturn]] void fail(std::string_view why, std::string hint = {}) const;

 private:
  std::string_view text_, where_;
};

}  // namespace exeunt
