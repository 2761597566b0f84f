// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/result_page.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/eval/marked_page.h"
#include "exeunt/eval/result_tables.h"

namespace exeunt::apps {
namespace {

constexpr size_t kMaxPageBytes = size_t{1} << 24;

// What a mark asks for: tables where it has lines to itself, words within a line.
std::string made_for(const StoredResults& results, const MarkedPlace& place, const std::string& page) {
  const std::vector<std::string> tables = section_names(), phrases = phrase_names();
  const std::vector<std::string>& known = place.on_lines ? tables : phrases;
  if (std::find(known.begin(), known.end(), place.name) != known.end())
    return place.on_lines ? markdown(section_named(results, place.name)) : phrase_named(results, place.name);
  const std::vector<std::string>& others = place.on_lines ? phrases : tables;
  const bool misplaced = std::find(others.begin(), others.end(), place.name) != others.end();
  throw Error(Code::bad_file,
              fmt::format("{}:{}: got the mark '{}', want the name of {}", page, place.line, place.name,
                          place.on_lines ? "a table" : "words within a line"),
              !misplaced       ? suggestion(place.name, known)
              : place.on_lines ? "its marks stand within a line"
                               : "its marks stand on lines of their own");
}

void fill_page(const Common& common, const TableFlags& flags, const StoredResults& results) {
  const std::string before = read_text(flags.page, kMaxPageBytes);
  const MarkedPage filled =
      fill_marks(before, flags.page, [&](const MarkedPlace& place) { return made_for(results, place, flags.page); });
  const auto difference = first_difference(before, filled.text);
  if (flags.check && difference) {
    throw Error(
        Code::failure,
        fmt::format("{}:{}: got '{}', want '{}'", flags.page, difference->line, difference->got, difference->want),
        "its figures are not those of the results; the same command without --check writes them");
  }
  if (difference) write_atomically(flags.page, filled.text);
  if (common.json)
    return print_json({{"page", flags.page}, {"places", filled.places.size()}, {"changed", difference.has_value()}});
  if (!common.quiet) {
    fmt::print("{}: {} places, {}\n", flags.page, filled.places.size(),
               difference ? fmt::format("written; the first change is in line {}", difference->line)
                          : "all as the results say");
  }
}

void print_plainly(const ResultSection& section) {
  for (const ResultTable& table : section.tables) {
    fmt::print("{}\n", table.title.empty() ? section.title : table.title);
    if (!table.remark.empty()) fmt::print("{}\n", table.remark);
    std::vector<std::vector<std::string>> rows;
    for (const std::vector<Cell>& row : table.rows) {
      rows.emplace_back();
      for (const Cell& cell : row) rows.back().push_back(cell.text);
    }
    print_table(table.header, rows);
    fmt::print("\n");
  }
}

OrderedJson results_json(const StoredResults& results, const std::vector<ResultSection>& sections) {
  int64_t steps = 0;
  for (const StoredRun& run : results.runs) steps += run.steps;
  OrderedJson tables = OrderedJson::array();
  for (const ResultSection& section : sections) {
    for (const ResultTable& table : section.tables) tables.push_back(table_json(section, table));
  }
  return {{"runs", results.runs.size()}, {"steps", steps}, {"tables", std::move(tables)}};
}

void print_all(const Common& common, const TableFlags& flags, const StoredResults& results) {
  const std::vector<ResultSection> sections = all_sections(results);
  if (common.json) return print_json(results_json(results, sections));
  for (const ResultSection& section : sections) {
    if (flags.markdown) {
      fmt::print("## {}\n{}\n", section.title, markdown(section));
    } else {
      print_plainly(section);
    }
  }
  std::vector<std::string> absent = section_names();
  std::erase_if(absent, [&](const std::string& name) {
    return std::any_of(sections.begin(), sections.end(), [&](const auto& section) { return section.name == name; });
  });
  if (!absent.empty()) {
    notice(common, fmt::format("{}: not there: {} (--table NAME says what each is made of)", results.folder.string(),
                               fmt::join(absent, ", ")));
  }
}

}  // namespace

void add_table_flags(CLI::App& verb, TableFlags& flags) {
  CLI::Option* table =
      verb.add_option("--table", flags.table,
                      fmt::format("With --from alone: one table; {}", fmt::join(section_names(), ", ")))
          ->type_name("NAME");
  verb.add_flag("--markdown", flags.markdown, "With --from alone: tables as Markdown");
  CLI::Option* page =
      verb.add_option("--page", flags.page,
                      "With --from alone: put every table and count into this page, between the marks that name them")
          ->type_name("FILE")
          ->excludes(table);
  verb.add_flag("--check", flags.check, "With --page: write nothing, fail where the page says something else")
      ->needs(page);
}

void show_results(const Common& common, const TableFlags& flags, const std::string& from) {
  const StoredResults results = read_results(from);
  if (!flags.page.empty()) return fill_page(common, flags, results);
  if (flags.table.empty()) return print_all(common, flags, results);
  const ResultSection section = section_named(results, flags.table);
  if (common.json) return print_json(results_json(results, {section}));
  if (flags.markdown) {
    fmt::print("{}", markdown(section));
  } else {
    print_plainly(section);
  }
}

}  // namespace exeunt::apps
