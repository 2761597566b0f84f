// SPDX-License-Identifier: Apache-2.0
// `exeunt reproduce --from DIR` without a paper: the tables of stored results, printed or put into a page.
#pragma once

#include <string>

#include "apps/exeunt/command.h"

namespace exeunt::apps {

struct TableFlags {
  std::string table, page;  // one table instead of all; the page to fill
  bool markdown = false, check = false;

  [[nodiscard]] bool any() const noexcept { return !table.empty() || !page.empty() || markdown || check; }
};

void add_table_flags(CLI::App& verb, TableFlags& flags);

// `from` is the folder of the results.
void show_results(const Common& common, const TableFlags& flags, const std::string& from);

}  // namespace exeunt::apps
