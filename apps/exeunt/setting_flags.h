// SPDX-License-Identifier: Apache-2.0
// The flags by which a verb names many settings of policies: texts with ranges and lists, and the originals' flags.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/exeunt/command.h"
#include "exeunt/exits/trace.h"

namespace exeunt::apps {

struct SettingFlags {
  std::vector<std::string> policies;  // ranges and lists
  std::string exits;                  // layers with commas; empty = all
  std::string patience, regression_threshold, entropy, lte;
};

// `name` is the flag of the policy texts.
void add_setting_flags(CLI::App& verb, SettingFlags& flags, const std::string& name);

// The settings in the order PABEE, DeeBERT and we would run them. Old flags are named with their new form, as a notice.
// Empty where no flag names any. Throws Error (usage).
[[nodiscard]] std::vector<PolicySpec> named_settings(const Common& common, const SettingFlags& flags);

// The same, or settings that suit the trace where none are named.
[[nodiscard]] std::vector<PolicySpec> settings_or_default(const std::vector<PolicySpec>& named,
                                                          const SettingFlags& flags, const ExitTrace& trace);

}  // namespace exeunt::apps
