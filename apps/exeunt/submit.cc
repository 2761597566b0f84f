// SPDX-License-Identifier: Apache-2.0
// `exeunt submit`: test splits answered by models, as the files that GLUE's and ELUE's servers take.
#include <filesystem>
#include <map>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/sweep.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/test_answers.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct SubmitFlags {
  std::string data, policy, out, task;
  std::vector<std::string> models;  // TASK=DIR
  int max_length = 128;
  RunFlags engine;  // of these: precision, engine, threads
};

// Which model answers which task, by the task's name in the table.
std::map<std::string, std::string> models_of(const SubmitFlags& flags, std::string_view suite) {
  std::map<std::string, std::string> out;
  for (const std::string& text : flags.models) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw Error(Code::usage, fmt::format("--model: got '{}', want TASK=DIR", text),
                  "for example --model SST-2=models/sst2");
    }
    const std::string task = text.substr(0, equals);
    out[std::string(find_task(suite == "elue" ? "elue/" + task : task).name)] = text.substr(equals + 1);
  }
  return out;
}

TestRun answer(const Common& common, const SubmitFlags& flags, const Task& task, const std::string& model) {
  RunFlags run;
  run.model = model;
  run.data.task = task.name;
  run.data.data = flags.data;
  run.data.split = "test";
  run.max_length = flags.max_length;
  run.threads = flags.engine.threads;
  run.precision = flags.engine.precision;
  run.engine = flags.engine.engine;
  const Measured measured = measure(common, run);
  if (!measured.model) throw Error(Code::usage, fmt::format("{}: got a trace, want a model", model));
  return answer_test(*measured.model, measured.trace, task, choose_policy(common, measured, flags.policy).policy);
}

OrderedJson cost_json(const Task& task, const PolicyScore& score) {
  OrderedJson out = score_json(score);
  out.erase("agreement");
  OrderedJson named;
  named["task"] = std::string(task.name);
  named.update(out);
  return named;
}

void run_glue(const Common& common, const SubmitFlags& flags) {
  const auto models = models_of(flags, "glue");
  std::vector<TestAnswers> answers;
  OrderedJson costs = OrderedJson::array();
  const Task* only = flags.task.empty() ? nullptr : &find_task(flags.task);
  for (const Task& task : all_tasks()) {
    if (task.suite != Suite::glue || task.submission.empty() || (only != nullptr && &task != only)) continue;
    const auto model = models.find(std::string(task.model_of.empty() ? task.name : task.model_of));
    if (model == models.end()) continue;
    if (!find_split(task, Split::test, flags.data)) {
      notice(common, fmt::format("{}: no test file under {}", task.name, flags.data));
      continue;
    }
    TestRun run = answer(common, flags, task, model->second);
    costs.push_back(cost_json(task, run.score));
    answers.push_back(std::move(run.run.answers));
  }
  if (answers.empty()) {
    throw Error(Code::usage, "no task has both a model and a test file",
                "name models as --model TASK=DIR, and the data folder with --data");
  }
  std::vector<std::string> filled;
  if (only != nullptr) {
    write_atomically(flags.out, glue_table(answers.front()));
  } else {
    filled = write_glue_submission(flags.out, answers);
  }
  if (common.json) return print_json({{"out", flags.out}, {"answered", costs}, {"filled", filled}});
  fmt::print("wrote {}: {} file{} answered\n", flags.out, answers.size(), answers.size() == 1 ? "" : "s");
  if (!filled.empty())
    fmt::print("filled with a constant, so that the server takes the zip: {}\n", fmt::join(filled, ", "));
}

void run_elue(const Common& common, const SubmitFlags& flags) {
  AtomicFolder folder(flags.out);
  OrderedJson costs = OrderedJson::array();
  for (const auto& [name, model] : models_of(flags, "elue")) {
    const Task& task = find_task(name);
    const TestRun run = answer(common, flags, task, model);
    const std::string stem = (folder.path() / plain_name(name.substr(name.find('/') + 1))).string();
    write_atomically(stem + ".tsv", elue_table(run.run));
    write_atomically(stem + ".exit_layer.tsv", elue_exit_layers(run.run));
    write_atomically(stem + ".lengths.tsv", elue_lengths(run.run));
    costs.push_back(cost_json(task, run.score));
  }
  if (costs.empty()) throw Error(Code::usage, "no model is named", "for example --model SST-2=models/sst2");
  folder.commit();
  if (common.json) return print_json({{"out", flags.out}, {"answered", costs}});
  for (const OrderedJson& row : costs) {
    fmt::print("{}: {:.2f} MFLOPs a text at true lengths, {:.2f} layers\n", row["task"].get<std::string>(),
               row["mflops"].get<double>(), row["average_layers"].get<double>());
  }
  fmt::print("wrote {}\n", flags.out);
}

void add_suite(CommandLine& line, const std::string& name, const std::string& summary, const std::string& example,
               void (*work)(const Common&, const SubmitFlags&)) {
  const auto flags = std::make_shared<SubmitFlags>();
  CLI::App* verb =
      add_verb(line, name, summary, {example}, [flags, work, &common = line.common] { work(common, *flags); });
  verb->add_option("--data", flags->data, "Folder that holds the task folders")->required();
  verb->add_option("--model", flags->models, "Repeat for every task; MNLI's model also answers MNLI-mm and AX")
      ->required()
      ->allow_extra_args(false)
      ->type_name("TASK=DIR");
  verb->add_option("--policy", flags->policy, "Exit policy, chosen on dev; the model's own if left out");
  verb->add_option("--out", flags->out, name == "glue" ? "Zip to write; with --task a TSV" : "Folder to write")
      ->required();
  if (name == "glue") verb->add_option("--task", flags->task, "Write one task's TSV instead of the zip");
  verb->add_option("--max-length", flags->max_length, "Most tokens of a text; longer ones are cut")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  add_precision_flags(*verb, flags->engine);
  verb->add_option("--threads", flags->engine.threads, "Threads; 0 = as many as the machine has")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

}  // namespace

void add_submit(CommandLine& line) {
  CLI::App* submit = line.app.add_subcommand("submit", "Write files for the servers of GLUE and ELUE");
  submit->require_subcommand(1);
  CommandLine inner{*submit, line.common, line.chosen};
  add_suite(inner, "glue", "GLUE's zip: every file, label names, row counts checked",
            "exeunt submit glue --data glue_data --model SST-2=models/sst2 --model MNLI=models/mnli --policy "
            "entropy:0.1 --out glue.zip",
            run_glue);
  add_suite(inner, "elue", "ELUE's tables: predictions, modules, exit layers, MFLOPs",
            "exeunt submit elue --data elue_data --model SST-2=models/elue-sst2 --policy patience:4 --out elue",
            run_elue);
}

}  // namespace exeunt::apps
