// SPDX-License-Identifier: Apache-2.0
// The flags of the five papers' training scripts and of Hugging Face's run_glue: today's name, a remark why one is not
// needed, or why one is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/exeunt/usage.h"

namespace exeunt::apps {

enum class OldFlag { renamed, bare, dropped, refused };  // bare: renamed, and takes no value today
struct OldFlagRow {
  std::string_view name;
  OldFlag kind;
  bool takes_value;
  std::string_view text;  // today's flags, or the reason
};

[[nodiscard]] const std::vector<OldFlagRow>& old_flags();

// The words of a command line, underscores of flags made dashes and old names today's; notices say what was renamed or
// dropped. "False" after a flag means what leaving it out does. Throws Error (usage) for a refused flag.
[[nodiscard]] Arguments with_todays_names(std::vector<std::string> words);

}  // namespace exeunt::apps
