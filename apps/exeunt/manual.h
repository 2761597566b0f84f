// SPDX-License-Identifier: Apache-2.0
// The manual of a verb, read from what it declared. Help, docs/cli.md, man pages and completion are all written from
// it, so that they agree on the flags.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace exeunt {

// completion.bash, completion.zsh or completion.fish, built into the command by cmake/embed.cmake. Each asks the
// command itself, which fails where a file belongs.
[[nodiscard]] std::string_view completion_script(std::string_view name) noexcept;

}  // namespace exeunt

namespace exeunt::apps {

using Entry = std::pair<std::string, std::string>;  // "-p, --port N" or a verb, and what it means

struct EntryGroup {
  std::string title;
  bool verbs = false;
  std::vector<Entry> entries = {};
};

struct Page {
  std::string name;  // "exeunt policy show"
  std::string summary, usage;
  std::vector<EntryGroup> groups = {};
  std::vector<std::string> examples = {};
};

// The group of flags that every verb has.
inline constexpr const char* kCommonOptions = "Common options";
inline constexpr const char* kOriginals = "Flags of the original implementations";

// Without those that are hidden. Arguments without a name come first.
[[nodiscard]] std::vector<const CLI::Option*> options_of(const CLI::App& app);
[[nodiscard]] std::vector<const CLI::App*> verbs_of(const CLI::App& app);
// "--port", "-p"
[[nodiscard]] std::vector<std::string> flag_names(const CLI::Option& option);
// "exeunt policy show"
[[nodiscard]] std::string full_name(const CLI::App& app);

[[nodiscard]] Page page_of(const CLI::App& app);

// Screen text of --help.
[[nodiscard]] std::string help_text(const CLI::App& app);

// The verb that asks for completion, before the words typed so far.
inline constexpr std::string_view kComplete = "__complete";

// Prints what may be typed in place of the last of `words`: one candidate per line, its meaning after a tab. Returns 1
// where a file belongs. Throws Unknown at a verb that `app` does not have.
int print_completions(const CLI::App& app, std::vector<std::string> words);

// A row of manual_tables.json.
struct NamedText {
  std::string_view name = {}, text = {};
};

// Environment variables of several verbs; those of a single flag are declared with that flag.
[[nodiscard]] std::span<const NamedText> variables() noexcept;
[[nodiscard]] std::span<const NamedText> exit_statuses() noexcept;

}  // namespace exeunt::apps
