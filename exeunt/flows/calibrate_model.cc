// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/calibrate_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/exits/losses.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/promise.h"
#include "exeunt/flows/model_policy.h"
#include "exeunt/flows/new_rows.h"
#include "exeunt/flows/quantize.h"
#include "exeunt/flows/tries.h"
#include "exeunt/runtime/device.h"

namespace exeunt {
namespace {

constexpr int kSearchTrials = 24;  // passes over the fit texts in the search for matrices to keep wider

MeasureOptions unlabelled_texts(const CalibrateOptions& options) {
  MeasureOptions texts = options.run;
  texts.trace.clear();
  texts.data.task.clear();
  texts.data.path = options.unlabelled;
  texts.data.columns.label.clear();
  return texts;
}

bool has_data(const CalibrateOptions& options) {
  return options.unlabelled.empty() || !options.run.data.path.empty() || !options.run.trace.empty();
}

Measured measured_for(const CalibrateOptions& options, const Observer& observer) {
  if (options.unlabelled.empty()) return measure(options.run, observer);
  if (is_trace_file(options.run.model))
    throw Error(Code::usage, "--unlabelled: got a trace, want a model to run on these texts");
  Measured measured = measure(unlabelled_texts(options), observer);
  if (!has_data(options)) return measured;
  measured.trace = join_rows(measure(options.run, observer).trace, measured.trace, options.unlabelled);
  return measured;
}

// Whether the model runs by its engine, so that its precision is open.
bool runs_engine(const CalibrateOptions& options) {
  const MeasureOptions& run = options.run;
  return !is_trace_file(run.model) && run.trace.empty() && run.from_server.empty() && !run.reference &&
         (run.precision.empty() || precision_named(run.precision));
}

// The texts of measured_for(), in the same order.
TracedTexts texts_of(const CalibrateOptions& options, const Measured& measured) {
  std::vector<Dataset> sources;
  if (has_data(options)) sources.push_back(data_for(options.run, *measured.model, {}));
  if (!options.unlabelled.empty()) sources.push_back(data_for(unlabelled_texts(options), *measured.model, {}));
  MeasureOptions run = options.run;
  run.max_length = measured.trace.info.max_length;
  return {*measured.model, run, std::move(sources)};
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

// The precision to certify in, and the parts in it.
class Precisions {
 public:
  // `parts` and what was measured are in fp32; `rows` are the places among the texts of the rows that were split.
  Precisions(const CalibrateOptions& options, const Measured& measured, const CalibrationData& parts,
             const std::vector<size_t>& rows, const Observer& observer)
      : options_(options),
        model_(*measured.model),
        engine_(engine_traits(options.run.device)),
        map_(find_precision_map(model_.folder(), model_.spec())),
        texts_(texts_of(options, measured)),
        parts_(parts),
        rows_(rows),
        observer_(observer) {}

  [[nodiscard]] PrecisionChoice choose(const CalibrationPlan& calibration) const {
    PrecisionPlan plan{.calibration = calibration};
    plan.trace = [&](const PrecisionSetting& setting) { return texts_.trace(setting, places(parts_.fit_rows)); };
    if (const auto named = precision_named(options_.run.precision))
      return named_precision(parts_, {*named, map_.exceptions(*named)}, plan);
    plan.candidates = faster_precisions(model_, engine_);
    plan.milliseconds = [&](const PrecisionSetting& setting, const PolicySpec& policy, const ExitTrace& fit) {
      if (!options_.run.profile.empty()) return predicted(policy, fit);
      return texts_.milliseconds(setting, policy, places(parts_.fit_rows));
    };
    // Only where the policy is the model's own may its precision.json change.
    if (options_.out.empty()) {
      plan.keep_wider = [&](const PrecisionSetting& setting, const ExitTrace&, double most) {
        return kept_wider(setting.precision, most);
      };
      plan.poolers = model_.exits().poolers() > 0;
    }
    return choose_precision(parts_, plan);
  }

  // All parts in one precision, each with fp32 as its reference; `fit` is that part in it.
  [[nodiscard]] CalibrationData traced(const PrecisionSetting& setting, const ExitTrace& fit) const {
    CalibrationData out = parts_;
    out.fit = fit;
    set_reference(out.fit, parts_.fit);
    const auto run = [&](ExitTrace& part, const PartRows& rows) {
      const ExitTrace fp32 = part;
      if (part.rows > 0 && setting != PrecisionSetting{}) part = texts_.trace(setting, places(rows), observer_);
      set_reference(part, fp32);
    };
    run(out.certify, out.certify_rows);
    run(out.report, out.report_rows);
    return out;
  }

  // Whether precision.json does not have the exceptions of a setting yet.
  [[nodiscard]] bool new_exceptions(const PrecisionSetting& setting) const {
    return setting.precision != Precision::fp32 && setting.exceptions != map_.exceptions(setting.precision);
  }

  // How many times faster than fp32 at full depth, on texts that chose nothing where there are any.
  [[nodiscard]] double speedup(const PrecisionSetting& setting, const PolicySpec& policy) const {
    const std::vector<size_t> rows = places(parts_.report.rows > 0 ? parts_.report_rows : parts_.certify_rows);
    return texts_.milliseconds({}, {}, rows) / texts_.milliseconds(setting, policy, rows);
  }

 private:
  // By the profile that the user names, which must know this precision.
  [[nodiscard]] double predicted(const PolicySpec& policy, const ExitTrace& fit) const {
    Measured measured{.trace = fit, .model = model_};
    measured.profile = profile_of(options_.run, measured, observer_);
    if (!measured.profile) {
      throw Error(Code::usage, fmt::format("{}: has no times in {}", options_.run.profile, fit.info.precision),
                  "measure them with 'exeunt bench MODEL --save', or leave --profile out to measure here");
    }
    return *Scorer(fit, scorer_options(measured)).score(policy).predicted_ms;
  }

  [[nodiscard]] std::vector<size_t> places(const PartRows& part) const {
    std::vector<size_t> out;
    for (const size_t row : part.row) out.push_back(rows_[row]);
    return out;
  }

  [[nodiscard]] Exceptions kept_wider(Precision precision, double most) const {
    const std::vector<size_t> rows = places(parts_.fit_rows);
    const std::span<const size_t> few(rows.data(), std::min(rows.size(), kRankingTexts));
    std::vector<size_t> first(few.size());
    std::iota(first.begin(), first.end(), size_t{0});
    const QuantizePlan plan{.matrices = matrix_names(model_.spec()),
                            .higher = engine_.bf16 ? Precision::bf16 : Precision::fp32,
                            .max_changed = most,
                            .max_drop = 1,
                            .trials = kSearchTrials,
                            .trace =
                                [&](const Exceptions& exceptions, bool part) {
                                  return texts_.trace({precision, exceptions}, part ? few : std::span(rows));
                                },
                            .say = observer_.notice};
    return choose_exceptions(parts_.fit, select_rows(parts_.fit, first), plan).exceptions;
  }

  const CalibrateOptions& options_;
  const Checkpoint& model_;
  EngineTraits engine_;
  PrecisionMap map_;
  TracedTexts texts_;
  const CalibrationData& parts_;
  const std::vector<size_t>& rows_;
  const Observer& observer_;
};

// The range of a regression's values: the model's or the task's, else the user's, else the one that the fit part shows.
std::optional<std::pair<double, double>> range_for(const CalibrateOptions& options, const Measured& measured,
                                                   const ExitTrace& fit, const Observer& observer) {
  if (!measured.trace.info.regression) {
    if (options.range) throw Error(Code::usage, "--range: the model predicts classes, which have no range");
    return std::nullopt;
  }
  const auto known = label_range(measured);
  if (known && options.range && known != options.range) {
    throw Error(Code::usage, fmt::format("--range: got {:g} to {:g}, and the model's values are from {:g} to {:g}",
                                         options.range->first, options.range->second, known->first, known->second));
  }
  if (known || options.range) return known ? known : options.range;
  const auto seen = observed_range(fit);
  if (seen) {
    observer.notice(fmt::format("range of the values: {:g} to {:g}, from {} of {} texts; --range names another",
                                seen->first, seen->second, fit.labelled() ? "the labels" : "the full-depth answers",
                                fit.rows));
  }
  return seen;
}

// A promise that is renewed from its traffic stays about what it was about.
CertifiedUnit unit_for(const CalibrateOptions& options, const std::filesystem::path& path, const TraceInfo& info) {
  if (options.unit) return *options.unit;
  if (options.run.from_server.empty()) return CertifiedUnit::texts;
  const PolicyFile file = policies_at(path, info.weights, info.precision);
  const PolicyEntry* entry = file.find(info.engine, info.precision);
  return entry != nullptr && entry->certificate ? entry->certificate->unit : CertifiedUnit::texts;
}

// Removes what the model learned; returns the places of the rows that stay.
std::vector<size_t> keep_new_rows(Measured& measured, const CalibrateOptions& options, const Observer& observer) {
  const std::vector<int64_t> sources = measured.trace.index;
  std::iota(measured.trace.index.begin(), measured.trace.index.end(), int64_t{0});
  exeunt::keep_new_rows(std::array{&measured.trace}, options.run.strict_new, observer);
  const std::vector<size_t> places(measured.trace.index.begin(), measured.trace.index.end());
  for (size_t row = 0; row < places.size(); ++row) measured.trace.index[row] = sources[places[row]];
  return places;
}

}  // namespace

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

std::string headline(const Calibrated& done) {
  const PolicyEntry& entry = done.calibration.entry;
  if (!done.speedup) return fmt::format("promise: {}", promise_of(entry));
  const std::string depth =
      str(entry.policy) == "full" ? "at full depth" : fmt::format("exits after {}", fmt::join(entry.exits, ", "));
  return fmt::format("{}, {}: {}; {:.1f} times faster", str(done.setting), depth, promise_of(entry), *done.speedup);
}

Calibrated calibrate_model(const CalibrateOptions& options, const Observer& observer) {
  if (is_trace_file(options.run.model) && options.out.empty())
    throw Error(Code::usage, "--out is required where only a trace is given", "for example --out policy.json");
  Calibrated done{.out = options.out.empty() ? policy_path(Checkpoint::open(options.run.model))
                                             : std::filesystem::path(options.out)};
  const PolicyLock lock(done.out);  // before the model runs: a second calibration learns at once that it is too late
  const bool engine = runs_engine(options);
  CalibrateOptions first = options;
  if (engine) first.run.precision = name_of(Precision::fp32);
  Measured measured = measured_for(first, observer);
  const std::vector<size_t> rows = keep_new_rows(measured, options, observer);
  require_policy_precision(measured.trace);
  const CalibrationData parts =
      split_for_calibration(measured.trace, options.seed, options.report ? SplitShares{} : kNoReport);
  CalibrationPlan plan = options.plan;
  plan.range = range_for(options, measured, parts.fit, observer);
  plan.unit = unit_for(options, done.out, measured.trace.info);
  plan.group = groups_of(options, measured);
  const bool named = !options.run.precision.empty();

  std::optional<Precisions> precisions;
  done.data = parts;
  if (engine) {
    precisions.emplace(options, measured, parts, rows, observer);
    const PrecisionChoice choice = precisions->choose(plan);
    done.setting = choice.chosen().setting;
    if (!named) done.precisions = choice.trials;
    done.data = precisions->traced(choice.chosen().setting, choice.fit);
  }
  if (engine && !named) {
    CertifiedChoice certified = certify_choice(
        done.setting, std::move(done.data), [&] { return precisions->traced({}, parts.fit); }, plan, observer);
    done.setting = std::move(certified.setting);
    done.data = std::move(certified.data);
    done.calibration = std::move(certified.calibration);
  } else {
    count_try(done.data, plan, observer, named);
    done.calibration = calibrate(done.data, plan);
  }

  const auto reported = [&](const CalibrationData& data) { return options.report ? data.report : data.certify; };
  const ExitTrace full_depth = reported(parts), early = reported(done.data);
  done.scores.push_back(Scorer(full_depth, scorer_options(measured)).score(PolicySpec{}));
  if (engine) {
    done.speedup = precisions->speedup(done.setting, done.calibration.outcomes.front().policy);
    if (precisions->new_exceptions(done.setting))  // before the policy, which is bound to them
      write_exceptions(*measured.model, done.setting.precision, done.setting.exceptions);
    measured.trace = done.data.certify;
    measured.profile = profile_of(options.run, measured, observer);
  }
  keep_policy(lock, done.out, measured, done.calibration.entry, !done.precisions.empty());
  Scorer scorer(early, scorer_options(measured));
  for (const BudgetOutcome& outcome : done.calibration.outcomes) done.scores.push_back(scorer.score(outcome.policy));
  say_losses(done, observer);
  return done;
}

}  // namespace exeunt
