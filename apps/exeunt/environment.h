// SPDX-License-Identifier: Apache-2.0
// What the command reads besides its flags, and what its exit status says: for the manual and for `exeunt doctor`.
#pragma once

#include <span>
#include <string_view>

namespace exeunt::apps {

struct Variable {
  std::string_view name, effect;
};

// Variables that every verb or several heed; those that stand for one flag are in that flag's row.
[[nodiscard]] std::span<const Variable> variables() noexcept;

struct ExitStatus {
  int value;
  std::string_view meaning;
};
[[nodiscard]] std::span<const ExitStatus> exit_statuses() noexcept;

}  // namespace exeunt::apps
