// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/data_flags.h"

#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/shell_word.h"

namespace exeunt::apps {

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    out.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

double share_of(std::string_view text, std::string_view flag) {
  const bool percent = text.ends_with('%');
  const std::string number(percent ? text.substr(0, text.size() - 1) : text);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  const double share = percent ? value / 100 : value;
  if (number.empty() || *end != '\0' || !(share > 0 && share < 1)) {
    throw Error(Code::usage, fmt::format("{}: got '{}', want a share above 0 and below 1", flag, text),
                "for example 1% or 0.01");
  }
  return share;
}

UserColumns ColumnFlags::chosen() const {
  UserColumns out = columns;
  out.labels = comma_list(labels);
  if (regression) out.regression = true;
  return out;
}

std::string column_words(const ColumnFlags& flags) {
  const UserColumns usual;
  std::string out;
  const auto add = [&](const char* flag, const std::string& value, const std::string& absent) {
    if (value != absent) out += fmt::format(" {} {}", flag, shell_word(value));
  };
  add("--text-column", flags.columns.text, usual.text);
  add("--pair-column", flags.columns.pair, usual.pair);
  add("--label-column", flags.columns.label, usual.label);
  const char separator = flags.columns.separator;
  if (separator != usual.separator) add("--separator", separator == '\t' ? "tab" : std::string(1, separator), "");
  add("--labels", flags.labels, "");
  return flags.regression ? out + " --regression" : out;
}

std::string data_words(const DataFlags& flags) {
  std::string out;
  if (!flags.task.empty()) out += " --task " + shell_word(flags.task);
  if (!flags.data.empty()) out += " --data " + shell_word(flags.data);
  if (!flags.split.empty()) out += " --split " + shell_word(flags.split);
  out += column_words(flags);
  return flags.limit > 0 ? out + fmt::format(" --limit {}", flags.limit) : out;
}

namespace {

std::optional<char> separator_named(const std::string& text) {
  if (text == "tab") return '\t';
  const bool fits = text.size() == 1 && (text[0] == '\t' || (text[0] >= ' ' && text[0] <= '~')) && text[0] != '"';
  return fits ? std::optional(text[0]) : std::nullopt;
}

}  // namespace

CLI::Option* add_separator_flag(CLI::App& verb, std::function<void(char)> take) {
  return verb
      .add_option_function<std::string>(
          "--separator", [take = std::move(take)](const std::string& text) { take(separator_named(text).value()); },
          "Own file: CSV with this character between the fields, e.g. ';' or tab; a comma if left out")
      ->check([](const std::string& text) {
        return separator_named(text) ? std::string() : fmt::format("got '{}', want one character, or tab", text);
      })
      ->type_name("C");
}

CLI::Option* add_separator_flag(CLI::App& verb, UserColumns& columns) {
  return add_separator_flag(verb, [&columns](char separator) {
    columns.separator = separator;
    columns.format = UserFormat::csv;
  });
}

void add_column_flags(CLI::App& verb, ColumnFlags& flags) {
  verb.add_option("--text-column", flags.columns.text, "Own file: column of the text")
      ->capture_default_str()
      ->group(kDataGroup);
  verb.add_option("--pair-column", flags.columns.pair, "Own file: column of the second text")->group(kDataGroup);
  verb.add_option("--label-column", flags.columns.label, "Own file: column of the label; empty = no labels")
      ->capture_default_str()
      ->group(kDataGroup);
  add_separator_flag(verb, flags.columns)->group(kDataGroup);
  verb.add_option("--labels", flags.labels, "Own file: label names in index order, with commas")->group(kDataGroup);
  verb.add_flag("--regression", flags.regression, "Own file: labels are numbers to predict")->group(kDataGroup);
}

void add_data_flags(CLI::App& verb, DataFlags& flags) {
  verb.add_option("--task", flags.task, "GLUE or ELUE task, e.g. SST-2, elue/imdb; none for your own file")
      ->group(kDataGroup);
  verb.add_option("--data", flags.data, "With --task the data folder, else a CSV, TSV or JSONL file")
      ->group(kDataGroup);
  verb.add_option("--split", flags.split, "Split of the task: train, dev or test (default dev)")->group(kDataGroup);
  add_column_flags(verb, flags);
  verb.add_option("--limit", flags.limit, "Take the first N rows")->check(CLI::PositiveNumber)->group(kDataGroup);
}

Dataset load_data(const DataFlags& flags, const ExitLayout* model) {
  Dataset data;
  if (flags.data.empty()) {
    throw Error(Code::usage, "--data is required", "name a data folder with --task, or a file of your own");
  }
  if (!flags.task.empty()) {
    data = read_split(find_task(flags.task), flags.split.empty() ? Split::dev : split_named(flags.split), flags.data);
  } else {
    if (!flags.split.empty()) throw Error(Code::usage, "--split: goes with --task");
    std::error_code ignored;
    if (std::filesystem::is_directory(flags.data, ignored)) {
      throw Error(Code::usage, fmt::format("{}: got a folder without --task", flags.data),
                  "add --task, or name a file");
    }
    UserColumns columns = flags.chosen();
    if (model != nullptr && columns.labels.empty() && !columns.regression) {
      columns.labels = model->labels;
      columns.regression = model->problem == Problem::regression;
    }
    data = read_user_data(flags.data, columns);
  }
  if (flags.limit > 0 && data.examples.size() > static_cast<size_t>(flags.limit)) {
    data.examples.resize(static_cast<size_t>(flags.limit));
  }
  if (data.examples.empty()) throw Error(Code::bad_file, fmt::format("{}: got no rows, want at least one", flags.data));
  return data;
}

}  // namespace exeunt::apps
