// SPDX-License-Identifier: Apache-2.0
// The table of options in the forms that other programs read (Markdown, man pages, shell completion), and what the
// command reads and returns besides: environment variables and exit statuses.
#pragma once

#include <span>
#include <string>
#include <string_view>

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

struct Variable {
  std::string_view name, effect;
};

// Environment variables of several verbs; those of a single flag are in that flag's row.
[[nodiscard]] std::span<const Variable> variables() noexcept;

struct ExitStatus {
  int value;
  std::string_view meaning;
};
[[nodiscard]] std::span<const ExitStatus> exit_statuses() noexcept;

}  // namespace exeunt::apps
