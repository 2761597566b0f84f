// SPDX-License-Identifier: Apache-2.0
// The table of options in the forms that other programs read: Markdown, man pages, completion of three shells.
#pragma once

#include <string>

#include "apps/exeunt/option_table.h"

namespace exeunt::apps {

// docs/cli.md
[[nodiscard]] std::string markdown_manual(const VerbTable& command);

// exeunt.1, and exeunt-VERB.1 of one of its verbs.
[[nodiscard]] std::string man_page(const VerbTable& command);
[[nodiscard]] std::string man_page(const VerbTable& command, const VerbTable& verb);

[[nodiscard]] std::string bash_completion(const VerbTable& command);
[[nodiscard]] std::string zsh_completion(const VerbTable& command);
[[nodiscard]] std::string fish_completion(const VerbTable& command);

}  // namespace exeunt::apps
