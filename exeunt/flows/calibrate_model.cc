// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/calibrate_model.h"

#include "exeunt/base/error.h"
#include "exeunt/flows/model_policy.h"

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
  for (size_t i = 0; i < done.calibration.outcomes.size(); ++i) {
    const double epsilon = done.calibration.outcomes[i].epsilon;
    for (size_t m = 0; m < done.scores[i + 1].metrics.size(); ++m) {
      const Score &full = done.scores.front().metrics[m], &early = done.scores[i + 1].metrics[m];
      if (!loses_much(full.value, early.value, epsilon, done.data.report.rows)) continue;
      observer.notice(
          fmt::format("{} falls from {:.2f} to {:.2f} with the policy for {:g}%, on {} texts: the promise is about {} "
                      "alone; ask for a smaller --max-drop or bring more rows",
                      name_of(full.metric), 100 * full.value, 100 * early.value, 100 * epsilon, done.data.report.rows,
                      name_of(done.calibration.entry.certificate->loss)));
    }
  }
}

}  // namespace

Calibrated calibrate_model(const CalibrateOptions& options, const Observer& observer) {
  if (is_trace_file(options.run.model) && options.out.empty())
    throw Error(Code::usage, "--out is required where only a trace is given", "for example --out policy.json");
  Calibrated done{.out = options.out.empty() ? policy_path(Checkpoint::open(options.run.model))
                                             : std::filesystem::path(options.out)};
  const PolicyLock lock(done.out);  // before the model runs: a second calibration learns at once that it is too late
  const Measured measured = measured_for(options, observer);
  require_policy_precision(measured.trace);
  done.data = split_for_calibration(measured.trace, options.seed);
  CalibrationPlan plan = options.plan;
  plan.range = label_range(measured);
  done.calibration = calibrate(done.data, plan);
  keep_policy(lock, done.out, measured, done.calibration.entry);
  Scorer scorer(done.data.report, scorer_options(measured));
  done.scores.push_back(scorer.score(PolicySpec{}));
  for (const BudgetOutcome& outcome : done.calibration.outcomes) done.scores.push_back(scorer.score(outcome.policy));
  say_losses(done, observer);
  return done;
}

}  // namespace exeunt
