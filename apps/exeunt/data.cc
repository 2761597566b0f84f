// SPDX-License-Identifier: Apache-2.0
// `exeunt data check`: what files hold, a task's or the user's own, and what is wrong or odd about them.
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/data/check_data.h"
#include "exeunt/data/features.h"
#include "exeunt/data/inspect.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/recipes/train_plan.h"

namespace exeunt::apps {
namespace {

OrderedJson as_json(const SplitReport& split) {
  OrderedJson out;
  out["split"] = std::string(name_of(split.split));
  out["file"] = split.path.string();
  out["state"] = std::string(name_of(split.state));
  out["rows"] = split.rows;
  out["expected_rows"] = split.expected;
  out["skipped_rows"] = split.skipped;
  out["columns"] = split.columns;
  out["label_counts"] = split.label_counts;
  out["notices"] = split.notices;
  out["problems"] = split.problems;
  out["problem_count"] = split.problem_count;
  out["sha256"] = split.sha256;
  return out;
}

OrderedJson as_json(const DataReport& report) {
  OrderedJson out;
  out["tasks"] = OrderedJson::array();
  for (const TaskReport& task : report.tasks) {
    OrderedJson row;
    row["task"] = std::string(task.task->name);
    row["suite"] = std::string(name_of(task.task->suite));
    row["folder"] = task.folder.string();
    row["state"] = std::string(name_of(task.state()));
    row["missing"] = task.missing;
    row["splits"] = OrderedJson::array();
    for (const SplitReport& split : task.splits) row["splits"].push_back(as_json(split));
    out["tasks"].push_back(std::move(row));
  }
  out["broken"] = report.broken();
  return out;
}

// "0: 428, 1: 444" for the labels of a task.
std::string label_text(const Task& task, const SplitReport& split) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < split.label_counts.size(); ++i) {
    parts.push_back(fmt::format("{}: {}", task.labels.at(i), split.label_counts[i]));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

void print_problems(const std::vector<std::string>& problems, int64_t count, const std::string& where) {
  for (const std::string& problem : problems) fmt::print("{}\n", problem);
  const auto unlisted = count - static_cast<int64_t>(problems.size());
  if (unlisted > 0) fmt::print("{}: {} more problems\n", where, unlisted);
}

void print_report(const DataReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const TaskReport& task : report.tasks) {
    for (const SplitReport& split : task.splits) {
      rows.push_back({std::string(task.task->name), split.path.filename().string(), fmt::format("{}", split.rows),
                      fmt::format("{}", split.expected), std::string(name_of(split.state)),
                      label_text(*task.task, split)});
    }
    for (const std::string& name : task.missing) {
      rows.push_back({std::string(task.task->name), name, "0", "", "missing", ""});
    }
  }
  print_table({"task", "file", "rows", "of", "state", "labels"}, rows);
  for (const TaskReport& task : report.tasks) {
    for (const SplitReport& split : task.splits) {
      print_problems(split.problems, split.problem_count, split.path.string());
    }
  }
}

void check_tasks(const Common& common, const DataReport& report, const std::string& folder) {
  common.json ? print_json(as_json(report)) : print_report(report);
  for (const TaskReport& task : report.tasks) {
    for (const SplitReport& split : task.splits) {
      for (const std::string& text : split.notices) notice(common, text);
    }
  }
  finish_output();
  if (report.broken()) {
    throw Error(Code::bad_file, fmt::format("{}: some files are broken", folder),
                "the lines above say where; download them again");
  }
}

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

void run_check(const Common& common, const CheckFlags& flags) {
  std::error_code ignored;
  if (flags.paths.size() == 1 && std::filesystem::is_directory(flags.paths.front(), ignored)) {
    const DataReport report = check_data(flags.paths.front());
    if (!report.tasks.empty()) return check_tasks(common, report, flags.paths.front());
  }
  check_own(common, flags);
}

}  // namespace

void add_data(CommandLine& line) {
  CLI::App* data = line.app.add_subcommand("data", "Inspect datasets");
  data->require_subcommand(1);
  CommandLine inner{*data, line.common, line.chosen};
  const auto flags = std::make_shared<CheckFlags>();
  CLI::App* verb =
      add_verb(inner, "check", "Check rows, columns and labels of your own files, or of GLUE and ELUE folders",
               {"exeunt data check my.csv --text-column body --label-column topic",
                "exeunt data check train.csv test.csv --model models/minilm", "exeunt data check glue_data",
                "exeunt data check glue_data/RTE --json"},
               [flags, &common = line.common] { run_check(common, *flags); });
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
