// SPDX-License-Identifier: Apache-2.0
// Exit policies as the flags of the original implementations name them, beside our --policy.
#pragma once

#include "apps/exeunt/model_flags.h"
#include "lab/choose/sweep_model.h"

namespace exeunt::apps {

struct OldSettingFlags : SettingFlags {
  std::string patience, regression_threshold, entropy, lte;
};
// `name` is the flag of the policy texts.
void add_old_setting_flags(CLI::App& verb, OldSettingFlags& flags, const std::string& name);
// For a measured model: the settings in the order PABEE, DeeBERT and we would run them; if none are named, a standard
// set, or with `own` the policy that the model runs. Old flags are named with their new form, as a notice. PABEE's
// regression threshold, which its scripts pass for every task, is left out for classes, with a notice. Throws Error
// (usage) at once for what cannot be read.
[[nodiscard]] SettingsFor settings_of_flags(const Common& common, const OldSettingFlags& flags, bool own = false);

}  // namespace exeunt::apps
