// SPDX-License-Identifier: Apache-2.0
// What this machine can do, what is missing, and what to do about it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"

namespace exeunt {

enum class Health {
  good,
  note,     // works, and could work better
  missing,  // one thing cannot be done
  broken,   // models cannot run, or would answer wrongly
};
[[nodiscard]] std::string_view name_of(Health health) noexcept;  // "ok", "note", "missing", "broken"

struct Finding {
  std::string name = {};
  Health health = Health::good;
  std::string text = {};
  std::string hint = {};
  OrderedJson details = {};
};

// `trainer` is the program exeunt-train; empty: it is not installed.
[[nodiscard]] std::vector<Finding> examine_machine(const std::filesystem::path& trainer);

[[nodiscard]] bool any_of(const std::vector<Finding>& findings, Health health);
[[nodiscard]] std::string verdict(const std::vector<Finding>& findings);

}  // namespace exeunt
