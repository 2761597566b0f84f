// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/calibrate_model.h"

#include <array>
#include <map>

#include "exeunt/base/error.h"
#include "exeunt/flows/model_policy.h"
#include "exeunt/flows/new_rows.h"
#include "exeunt/flows/tries.h"

namespace exeunt {
namespace {

Measured measured_for(const CalibrateOptions& options, const Observer& observer) {
  if (options.unlabelled.empty()) return measure(options.run, observer);
  if (is_trace_file(options.run.model))
    throw Error(Code::usage, "--unlabelled: got a trace, want a model to run on these texts");
  MeasureOptions texts = options.run;
  texts.trace.clear();
  texts.data.task.clear();
  texts.data.path = options.unlabelled;
  texts.data.columns.label.clear();
  Measured measured = measure(texts, observer);
  if (options.run.data.path.empty() && options.run.trace.empty()) return measured;
  measured.trace = join_rows(measure(options.run, observer).trace, measured.trace, options.unlabelled);
  return measured;
}

// A promise about answers bounds no metric of rare classes: said where one fell by much more than was asked for.
void say_losses(const Calibrated& done, const Observer& observer) {
  const size_t rows = done.data.report.rows > 0 ? done.data.report.rows : done.data.certify.rows;
  for (size_t i = 0; i < done.calibration.outcomes.size(); ++i) {
    const double epsilon = done.calibration.outcomes[i].epsilon;
    for (size_t m = 0; m < done.scores[i + 1].metrics.size(); ++m) {
      const Score &full = done.scores.front().metrics[m], &early = done.scores[i + 1].metrics[m];
      if (!loses_much(full.value, early.value, epsilon, rows)) continue;
      observer.notice(
          fmt::format("{} falls from {:.2f} to {:.2f} with the policy for {:g}%, on {} texts: the promise is about {} "
                      "alone; ask for a smaller --max-drop or bring more rows",
                      name_of(full.metric), 100 * full.value, 100 * early.value, 100 * epsilon, rows,
                      name_of(done.calibration.entry.certificate->loss)));
    }
  }
}

// The groups of every row of the trace. A column is read from the data as if it were the label.
GroupPlan groups_of(const CalibrateOptions& options, const Measured& measured) {
  GroupPlan plan{.by = options.group};
  if (plan.by.empty() || plan.by == "label" || plan.by == "length") return plan;
  DataSource source = options.run.data;
  if (source.path.empty() || !source.task.empty() || !options.unlabelled.empty()) {
    throw Error(Code::usage, fmt::format("--group: the column '{}' is read from a file of your own", plan.by),
                "name it with --data alone, or group by label or length");
  }
  source.columns.label = plan.by;
  source.columns.labels.clear();
  source.columns.regression = false;
  const Dataset data = load_data(source);
  std::map<int64_t, float> value;
  for (const Example& example : data.examples) value[example.index] = example.gold;
  for (const int64_t index : measured.trace.index) {
    const auto found = value.find(index);
    if (found == value.end())
      throw Error(Code::bad_file, fmt::format("{}: has no row {}, which the trace has", data.where, index));
    plan.values.push_back(data.labels.at(static_cast<size_t>(found->second)));
  }
  return plan;
}

}  // namespace

Calibrated calibrate_model(const CalibrateOptions& options, const Observer& observer) {
  if (is_trace_file(options.run.model) && options.out.empty())
    throw Error(Code::usage, "--out is required where only a trace is given", "for example --out policy.json");
  Calibrated done{.out = options.out.empty() ? policy_path(Checkpoint::open(options.run.model))
                                             : std::filesystem::path(options.out)};
  const PolicyLock lock(done.out);  // before the model runs: a second calibration learns at once that it is too late
  Measured measured = measured_for(options, observer);
  keep_new_rows(std::array{&measured.trace}, options.run.strict_new, observer);
  require_policy_precision(measured.trace);
  done.data = split_for_calibration(measured.trace, options.seed, options.report ? SplitShares{} : kNoReport);
  CalibrationPlan plan = options.plan;
  plan.range = label_range(measured);
  plan.group = groups_of(options, measured);
  count_try(done.data, plan, observer);
  done.calibration = calibrate(done.data, plan);
  keep_policy(lock, done.out, measured, done.calibration.entry);
  Scorer scorer(options.report ? done.data.report : done.data.certify, scorer_options(measured));
  done.scores.push_back(scorer.score(PolicySpec{}));
  for (const BudgetOutcome& outcome : done.calibration.outcomes) done.scores.push_back(scorer.score(outcome.policy));
  say_losses(done, observer);
  return done;
}

}  // namespace exeunt
