// SPDX-License-Identifier: Apache-2.0
// `exeunt data check`: the content of the user's files, and what is wrong or odd about them.
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "exeunt/data/features.h"
#include "exeunt/data/inspect.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/recipes/train_plan.h"

namespace exeunt::apps {
namespace {

struct CheckFlags : ColumnFlags {
  std::vector<std::string> paths;
  std::string model;
  int max_length = 0;  // as training would take it
};

// One file of the user's own: what was read, and how its texts fit the model if there is one.
struct Checked {
  std::string name;
  UserReport report;
  std::vector<std::string> warnings = {};
  int64_t shared = 0;  // rows that the first file has, too
  std::optional<Features> features = {};
};

OrderedJson as_json(const Checked& file) {
  const auto& [data, facts, problems, problem_count] = file.report;
  OrderedJson out{{"file", file.name},
                  {"rows", facts.rows},
                  {"skipped_rows", data.skipped},
                  {"columns", data.columns},
                  {"regression", data.problem == Problem::regression},
                  {"pairs", facts.pairs}};
  out["labels"] = OrderedJson::object();
  for (size_t i = 0; i < facts.label_counts.size(); ++i) out["labels"][data.labels[i]] = facts.label_counts[i];
  out["rare_labels"] = facts.rare;
  out["missing_labels"] = facts.missing;
  out["near_labels"] = OrderedJson::array();
  for (const NearLabels& near : facts.near) out["near_labels"].push_back({near.rare, near.common});
  out["repeated_rows"] = facts.repeated;
  out["contradicting_rows"] = facts.contradictions;
  out["shared_rows"] = file.shared;
  out["words"] = {{"median", facts.median_words}, {"most", facts.most_words}};
  if (file.features) {
    out["max_length"] = file.features->info.max_length;
    out["truncated_rows"] = file.features->truncated;
    out["lost_tokens"] = file.features->lost_tokens;
    out["kept_tokens"] = file.features->ids.size();
  }
  out["notices"] = data.notices;
  out["warnings"] = file.warnings;
  out["problems"] = problems;
  out["problem_count"] = problem_count;
  out["sha256"] = data.sha256;
  return out;
}

std::string kind_of(const Dataset& data) {
  if (!data.labelled) return "none";
  if (data.problem != Problem::regression) return fmt::format("{}", data.labels.size());
  return data.range ? fmt::format("numbers, {:g} to {:g}", data.range->first, data.range->second) : "numbers";
}

void print_labels(const Checked& file) {
  constexpr size_t kShown = 30;
  std::vector<std::vector<std::string>> rows;
  const std::vector<int64_t>& counts = file.report.facts.label_counts;
  for (size_t i = 0; i < std::min(kShown, counts.size()); ++i) {
    const double share =
        static_cast<double>(counts[i]) / static_cast<double>(std::max<int64_t>(1, file.report.facts.rows));
    rows.push_back({file.report.data.labels[i], fmt::format("{}", counts[i]), percent(share)});
  }
  if (rows.empty()) return;
  fmt::print("\n");
  print_table({"label", "rows", "%"}, rows);
  if (counts.size() > kShown) fmt::print("… {} more labels; --json has all\n", counts.size() - kShown);
}

void print_files(const std::vector<Checked>& files) {
  std::vector<std::vector<std::string>> rows;
  for (const Checked& file : files) {
    const DataFacts& facts = file.report.facts;
    rows.push_back({file.name, fmt::format("{}", facts.rows), fmt::format("{}", file.report.data.skipped),
                    kind_of(file.report.data), fmt::format("{}", facts.repeated),
                    fmt::format("{}, at most {}", facts.median_words, facts.most_words)});
  }
  print_table({"file", "rows", "skipped", "labels", "repeated", "words"}, rows);
  print_labels(files.front());
  for (const Checked& file : files) {
    print_problems(file.report.problems, file.report.problem_count, file.name);
  }
}

// The first file is the one to learn from: it decides the labels, and no other should have its rows.
std::vector<Checked> check_files(const CheckFlags& flags) {
  std::vector<Checked> files;
  std::optional<Checkpoint> model;
  std::unique_ptr<const Tokenizer> tokenizer;
  if (!flags.model.empty()) {
    model = Checkpoint::open(flags.model);
    tokenizer = load_tokenizer(model->folder());
  }
  UserColumns columns = flags.columns;
  int max_length = flags.max_length;
  for (const std::string& path : flags.paths) {
    Checked file{.name = path, .report = check_user_data(path, columns)};
    const Dataset& data = file.report.data;
    file.warnings = warnings_of(file.report.facts, data, files.empty() ? DataUse::learn : DataUse::measure);
    if (!files.empty()) file.shared = shared_rows(files.front().report.data, data);
    if (file.shared > 0) {
      file.warnings.push_back(fmt::format("{}: {} of {} rows are in {}, too", path, file.shared, file.report.facts.rows,
                                          files.front().name));
    }
    if (tokenizer) {
      const int positions = model->spec().max_tokens();
      if (max_length == 0) max_length = max_length_for(text_lengths(data, *tokenizer), positions);
      file.features = make_features(data, *tokenizer, {.max_length = std::min(max_length, positions)});
      if (file.features->truncated > 0)
        file.warnings.push_back(fmt::format("{}: {}", path, truncation_text(*file.features)));
    }
    if (files.empty()) {
      columns.labels = data.labels;
      columns.problem = data.problem;
    }
    files.push_back(std::move(file));
  }
  return files;
}

void check_own(const Common& common, const CheckFlags& flags) {
  const std::vector<Checked> files = check_files(flags);
  if (common.json) {
    OrderedJson out{{"files", OrderedJson::array()}};
    for (const Checked& file : files) out["files"].push_back(as_json(file));
    print_json(out);
  } else {
    print_files(files);
  }
  finish_output();
  int64_t problems = 0;
  for (const Checked& file : files) {
    for (const std::string& text : file.report.data.notices) notice(common, text);
    for (const std::string& text : file.warnings) notice(common, text);
    problems += file.report.problem_count;
  }
  if (problems == 0 || flags.columns.skip_bad) return;
  throw Error(Code::bad_file, fmt::format("{} row{} cannot be used", problems, problems == 1 ? "" : "s"),
              "the lines above say where; --skip-bad leaves such rows out");
}

// A folder may be a benchmark's, which only the lab knows.
void run_check(const CommandLine& line, const CheckFlags& flags) {
  std::error_code ignored;
  if (flags.paths.size() == 1 && std::filesystem::is_directory(flags.paths.front(), ignored)) {
    become_lab(line.argv);
    if (line.more.check_folder != nullptr && line.more.check_folder(line.common, flags.paths.front())) return;
  }
  check_own(line.common, flags);
}

}  // namespace

void add_data(CommandLine& line) {
  CLI::App* data = line.app.add_subcommand("data", "Inspect datasets");
  data->require_subcommand(1);
  CommandLine inner{*data, line.common, line.chosen, line.more, line.argv};
  const auto flags = std::make_shared<CheckFlags>();
  CLI::App* verb =
      add_verb(inner, "check", "Check rows, columns and labels of your own files, or of GLUE and ELUE folders",
               {"exeunt data check my.csv --text-column body --label-column topic",
                "exeunt data check train.csv test.csv --model models/minilm", "exeunt data check glue_data",
                "exeunt data check glue_data/RTE --json"},
               [flags, inner] { run_check(inner, *flags); });
  verb->add_option(
          "DATA", flags->paths,
          "Your files, the one to train on first: CSV, TSV or JSONL, also .gz, or a folder; or a task's folder, "
          "or a folder of such folders")
      ->required();
  add_column_flags(*verb, flags->columns);
  verb->add_option("--model", flags->model, "Also count the texts that are too long for this model");
  add_length_flag(*verb, flags->max_length);
  verb->get_option("--max-length")->default_str("as 'exeunt train' would take it");
}

}  // namespace exeunt::apps
