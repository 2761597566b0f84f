// SPDX-License-Identifier: Apache-2.0
// `exeunt submit`: test splits answered by models, as the files that GLUE's and ELUE's servers take.
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/eval/scores.h"
#include "lab/cli/verbs.h"
#include "lab/elue/test_answers.h"

namespace exeunt::apps {
namespace {

struct SubmitFlags : SubmitOptions {
  std::vector<std::string> named;  // TASK=DIR
};

// Which model answers which task, by the task's name in the table.
void take_models(SubmitFlags& flags, std::string_view suite) {
  for (const std::string& text : flags.named) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw Error(Code::usage, fmt::format("--model: got '{}', want TASK=DIR", text),
                  "for example --model SST-2=models/sst2");
    }
    const std::string task = text.substr(0, equals);
    flags.models[std::string(find_task(suite == "elue" ? "elue/" + task : task).name)] = text.substr(equals + 1);
  }
}

OrderedJson costs_json(const Submitted& done) {
  OrderedJson out = OrderedJson::array();
  for (const TestRun& run : done.runs) {
    OrderedJson row{{"task", std::string(run.run.answers.task->name)}};
    row.update(score_json(run.score));
    row.erase("agreement");
    row["parameters"] = run.parameters;
    out.push_back(std::move(row));
  }
  return out;
}

void run_glue(const Common& common, SubmitFlags& flags) {
  take_models(flags, "glue");
  const Submitted done = submit_glue(flags, observer(common));
  if (common.json) return print_json({{"out", flags.out}, {"answered", costs_json(done)}, {"filled", done.filled}});
  fmt::print("wrote {}: {} file{} answered\n", flags.out, done.runs.size(), done.runs.size() == 1 ? "" : "s");
  if (!done.filled.empty())
    fmt::print("filled with a constant, since the server wants all files: {}\n", fmt::join(done.filled, ", "));
}

void run_elue(const Common& common, SubmitFlags& flags) {
  take_models(flags, "elue");
  const Submitted done = submit_elue(flags, observer(common));
  if (common.json) return print_json({{"out", flags.out}, {"answered", costs_json(done)}});
  for (const TestRun& run : done.runs) {
    fmt::print("{}: {:.2f} MFLOPs per text at true lengths, {:.2f} layers, {} parameters\n", run.run.answers.task->name,
               run.score.mflops.value_or(0), run.score.cost.average_layers,
               short_count(static_cast<double>(run.parameters)));
  }
  fmt::print("wrote {}\n", flags.out);
}

void add_suite(CommandLine& line, const std::string& name, const std::string& summary, const std::string& example,
               void (*work)(const Common&, SubmitFlags&)) {
  const auto flags = std::make_shared<SubmitFlags>();
  CLI::App* verb =
      add_verb(line, name, summary, {example}, [flags, work, &common = line.common] { work(common, *flags); });
  verb->add_option("--data", flags->measure.data.path, "Folder of task folders")->required();
  verb->add_option("--model", flags->named, "Model of a task; repeatable; MNLI's also answers MNLI-mm and AX")
      ->required()
      ->allow_extra_args(false)
      ->type_name("TASK=DIR");
  verb->add_option("--policy", flags->policy, "Exit policy, to be chosen on dev")->default_str("the model's own");
  verb->add_option("--out", flags->out, name == "glue" ? "Output zip; with --task a TSV" : "Output folder")->required();
  if (name == "glue") verb->add_option("--task", flags->task, "Write one task's TSV instead of the zip");
  add_labels_flag(*verb, flags->measure.data.columns);
  add_length_flag(*verb, flags->measure.max_length);
  add_precision_flags(*verb, flags->measure);
  add_threads_flag(*verb, flags->measure.threads);
}

}  // namespace

void add_submit(CommandLine& line) {
  CLI::App* submit = line.app.add_subcommand("submit", "Write submission files for GLUE and ELUE");
  submit->require_subcommand(1);
  CommandLine inner{*submit, line.common, line.chosen};
  add_suite(inner, "glue", "Write GLUE's submission zip, with every file and row count checked",
            "exeunt submit glue --data glue_data --model SST-2=models/sst2 --model MNLI=models/mnli --policy "
            "entropy:0.1 --out glue.zip",
            run_glue);
  add_suite(inner, "elue", "Write ELUE's submission: predictions, modules and their Python file, exit layers, MFLOPs",
            "exeunt submit elue --data elue_data --model SST-2=models/elue-sst2 --policy patience:4 --out elue",
            run_elue);
}

}  // namespace exeunt::apps
