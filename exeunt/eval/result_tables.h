// SPDX-License-Identifier: Apache-2.0
// Every table of docs/reproducing.md, and the counts in its sentences, made from a folder of stored results. Each has a
// name, by which a page says where it stands (eval/marked_page.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/eval/stored_results.h"

namespace exeunt {

// What a table shows in one place.
struct Cell {
  Cell(std::string shown, std::vector<double> behind = {}) : text(std::move(shown)), numbers(std::move(behind)) {}
  Cell(const char* shown) : text(shown) {}

  std::string text;
  std::vector<double> numbers;  // those in the text, before they were rounded
};

struct ResultTable {
  std::string title = {}, remark = {};  // no title: that of its section says it all
  std::vector<std::string> header = {};
  std::vector<std::vector<Cell>> rows = {};
};

struct ResultSection {
  std::string name = {}, title = {};
  std::vector<ResultTable> tables = {};
};

// "speed", "chosen", …, in the order of the page.
[[nodiscard]] std::vector<std::string> section_names();
// Throws Error: usage for a name that is none; bad_file where the folder has not the files it is made of, or bad ones.
[[nodiscard]] ResultSection section_named(const StoredResults& results, std::string_view name);
// Those whose files the folder has.
[[nodiscard]] std::vector<ResultSection> all_sections(const StoredResults& results);

// Words with a count in them: "runs" is "206 runs with 313,389 steps". Errors as above.
[[nodiscard]] std::vector<std::string> phrase_names();
[[nodiscard]] std::string phrase_named(const StoredResults& results, std::string_view name);

// As a page has it: without the section's title, with those of its tables where it has several.
[[nodiscard]] std::string markdown(const ResultTable& table);
[[nodiscard]] std::string markdown(const ResultSection& section);
// The texts as "rows", what they were rounded from as "numbers", a list for each cell.
[[nodiscard]] OrderedJson table_json(const ResultSection& section, const ResultTable& table);

}  // namespace exeunt
