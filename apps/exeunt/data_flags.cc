// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/data_flags.h"

#include <optional>

#include <fmt/format.h>

#include "apps/exeunt/command.h"
#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/outputs/evidence.h"

namespace exeunt::apps {

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, ',')) out.emplace_back(trimmed(part));
  if (out.back().empty()) out.pop_back();  // an empty list, or a comma at its end
  return out;
}

double share_of(std::string_view text, std::string_view flag, bool ends) {
  const bool percent = text.ends_with('%');
  const auto value = number_of<double>(text.substr(0, text.size() - (percent ? 1 : 0)));
  const double share = value.value_or(-1) / (percent ? 100 : 1);
  if (!(ends ? share >= 0 && share <= 1 : share > 0 && share < 1)) {
    throw Error(Code::usage,
                fmt::format("{}: got '{}', want a share {}", flag, text, ends ? "from 0 to 1" : "above 0 and below 1"),
                "for example 1% or 0.01");
  }
  return share;
}

std::pair<double, double> value_range(std::string_view text, std::string_view flag) {
  const std::vector<std::string> ends = comma_list(text);
  if (ends.size() == 2) {
    const auto low = number_of<double>(ends[0]), high = number_of<double>(ends[1]);
    if (low && high && *low < *high) return {*low, *high};
  }
  throw Error(Code::usage, fmt::format("{}: got '{}', want two rising numbers", flag, text), "for example 0,5");
}

double seconds_of(std::string_view text, std::string_view flag) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const double value = number_of<double>(text.substr(0, digits)).value_or(0);
  const std::string_view unit = text.substr(digits);
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "min" || unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (!(value > 0) || scale == 0 || !(value * scale < 1e9)) {
    throw Error(Code::usage, fmt::format("{}: got '{}', want a time", flag, text), "for example 90s, 5min or 1.5h");
  }
  return value * scale;
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
          "Your file: CSV field separator, e.g. ';' or tab")
      ->check([](const std::string& text) {
        return separator_named(text) ? std::string() : fmt::format("got '{}', want one character, or tab", text);
      })
      ->default_str("comma");
}

CLI::Option* add_separator_flag(CLI::App& verb, UserColumns& columns) {
  return add_separator_flag(verb, [&columns](char separator) {
    columns.separator = separator;
    columns.format = DataFormat::csv;
  });
}

CLI::Option* add_labels_flag(CLI::App& verb, UserColumns& columns) {
  return verb.add_option_function<std::string>(
      "--labels", [&columns](const std::string& text) { columns.labels = comma_list(text); },
      "Comma-separated label names in index order; renames a model's labels");
}

CLI::Option* add_thresholds_flag(CLI::App& verb, std::string& thresholds) {
  return verb
      .add_option("--thresholds", thresholds,
                  fmt::format("Several labels: probabilities above which they are given: {}", kThresholdForms))
      ->default_str("the model's");
}

OrderedJson thresholds_json(const std::vector<std::string>& labels, const std::vector<float>& logit_thresholds) {
  OrderedJson out = OrderedJson::object();
  for (size_t i = 0; i < labels.size(); ++i)
    out[labels[i]] = logit_thresholds.empty() ? 0.5 : threshold_of(logit_thresholds[i]);
  return out;
}

void add_column_flags(CLI::App& verb, UserColumns& columns) {
  const OptionGroup group(verb, kDataGroup);
  verb.add_option("--text-column", columns.text, "Your file: text column")->capture_default_str();
  verb.add_option("--pair-column", columns.pair, "Your file: column of the second text");
  verb.add_option("--label-column", columns.label, "Your file: label column; empty = no labels")->capture_default_str();
  CLI::Option* multi_label = verb.add_flag_callback(
      "--multi-label", [&columns] { columns.problem = Problem::multi_label; },
      "Your file: a row has any number of labels, as a list (JSONL) or as a|b");
  verb.add_option_function<std::string>(
      "--label-columns", [&columns](const std::string& text) { columns.label_columns = comma_list(text); },
      "Your file: multi-label, with a column of 1 or 0 for each label");
  add_separator_flag(verb, columns);
  add_labels_flag(verb, columns);
  verb.add_flag_callback(
          "--regression", [&columns] { columns.problem = Problem::regression; },
          "Your file: labels are regression targets")
      ->excludes(multi_label);
  verb.add_flag("--skip-bad", columns.skip_bad,
                "Your file: skip and count rows that cannot be read or have no label, instead of refusing the file");
}

void add_cluster_flag(CLI::App& verb, UserColumns& columns) {
  const OptionGroup group(verb, kDataGroup);
  verb.add_option("--cluster", columns.cluster,
                  "Column whose equal values mark rows that belong together; none = no rows do")
      ->default_str("the first text of pairs");
}

void add_data_flags(CLI::App& verb, DataSource& source) {
  const OptionGroup group(verb, kDataGroup);
  verb.add_option("--task", source.task, "GLUE or ELUE task, e.g. SST-2 or elue/imdb; omit for a file of your own");
  verb.add_option("--data", source.path, "With --task: the data folder; otherwise a CSV, TSV or JSONL file");
  verb.add_option("--split", source.split, "Split of the task: train, dev or test")->default_str("dev");
  add_column_flags(verb, source.columns);
  verb.add_option("--limit", source.limit, "Use only the first N rows")->check(positive());
}

}  // namespace exeunt::apps
