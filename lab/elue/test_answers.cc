// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/test_answers.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/engine/engine.h"
#include "exeunt/engine/formulas.h"
#include "exeunt/eval/drift.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/cost.h"
#include "lab/elue/submission.h"

namespace exeunt {
namespace {

struct AnsweredSplit {
  TestRun run;
  ModelSpec spec;
  ExitLayout exits;
};

AnsweredSplit answer_split(const SubmitOptions& options, const Task& task, const std::string& model,
                           const Observer& observer) {
  MeasureOptions one = options.measure;
  one.model = model;
  one.data.task = task.name;
  one.data.split = "test";
  const Measured measured = measure(one, observer);
  if (!measured.model) throw Error(Code::usage, fmt::format("{}: got a trace, want a model", model));
  const PolicySpec policy = resolve_measured(measured, {.policy = options.policy}, observer).policy;
  return {answer_test(*measured.model, measured.trace, task, policy), measured.model->spec(), measured.model->exits()};
}

}  // namespace

TestRun answer_test(const Checkpoint& model, const ExitTrace& trace, const Task& task, const PolicySpec& policy) {
  const ExitLayout& layout = model.exits();
  const ExitSites sites = exit_sites(layout);
  const Policy bound = bind(policy, sites);
  TestRun out;
  out.run.answers = {.task = &task, .labels = layout.labels, .predicted = {}};
  out.run.hidden = model.spec().hidden;
  for (int i = 0; i < bound.count; ++i) {
    const ExitSite& site = layout.sites[static_cast<size_t>(bound.site[i])];
    out.run.exits.push_back({.after = site.after, .reads_all_rows = reads_all_rows(layout, site)});
  }
  Replayer replayer(trace);
  const Departures departures = replayer.run(policy);
  for (size_t row = 0; row < trace.rows; ++row) {
    out.run.answers.predicted.push_back(answer_of(trace.info, replayer.answer(departures, row)));
    out.run.tokens.push_back(trace.lengths[row]);
    out.run.layers.push_back(sites.layers[departures.exit[row]]);
  }
  out.parameters = count_parameters(model).total();
  const Scorer scorer(trace, {.mflops = mflops_of(model)});
  out.score = scorer.score(policy, departures);
  return out;
}

Submitted submit_glue(const SubmitOptions& options, const Observer& observer) {
  Submitted out;
  std::vector<TestAnswers> answers;
  const Task* only = options.task.empty() ? nullptr : &find_task(options.task);
  for (const Task& task : all_tasks()) {
    if (task.suite != Suite::glue || task.submission.empty() || (only != nullptr && &task != only)) continue;
    const auto model = options.models.find(std::string(task.model_of.empty() ? task.name : task.model_of));
    if (model == options.models.end()) continue;
    if (!find_split(task, Split::test, options.measure.data.path)) {
      observer.notice(fmt::format("{}: no test file under {}", task.name, options.measure.data.path));
      continue;
    }
    out.runs.push_back(answer_split(options, task, model->second, observer).run);
    answers.push_back(out.runs.back().run.answers);
  }
  if (answers.empty()) {
    throw Error(Code::usage, "no task has both a model and a test file",
                "name models as --model TASK=DIR, and the data folder with --data");
  }
  if (only != nullptr) {
    write_atomically(options.out, glue_table(answers.front()));
  } else {
    out.filled = write_glue_submission(options.out, answers);
  }
  return out;
}

Submitted submit_elue(const SubmitOptions& options, const Observer& observer) {
  if (options.models.empty()) throw Error(Code::usage, "no model is named", "for example --model SST-2=models/sst2");
  AtomicFolder folder(options.out);
  Submitted out;
  OrderedJson parameters;
  for (const auto& [name, model] : options.models) {
    const AnsweredSplit answered = answer_split(options, find_task(name), model, observer);
    const TestRun& run = out.runs.emplace_back(answered.run);
    const std::string plain = plain_name(name.substr(name.find('/') + 1)), stem = (folder.path() / plain).string();
    write_atomically(stem + ".tsv", elue_table(run.run));
    write_atomically(stem + ".exit_layer.tsv", elue_exit_layers(run.run));
    write_atomically(stem + ".lengths.tsv", elue_lengths(run.run));
    parameters[plain] = run.parameters;
    if (answered.exits.readers() > 0 || answered.exits.ngrams) {
      observer.notice(fmt::format(
          "{}: no module file, as the exits of {} have readers or one is before the first layer", name, model));
    } else {
      write_atomically(stem + "_modules.py", elue_module_file(answered.spec, answered.exits));
    }
  }
  write_atomically(folder.path() / "parameters.json", json_text(parameters));
  folder.commit();
  return out;
}

}  // namespace exeunt
