// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/calibrate_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/quantize.h"
#include "exeunt/certify/shift.h"
#include "exeunt/certify/split.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/certify/traced_texts.h"
#include "exeunt/certify/tries.h"
#include "exeunt/engine/engine.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

MeasureOptions unlabelled_texts(const CalibrateOptions& options) {
  MeasureOptions texts = options.run;
  texts.trace.clear();
  texts.data.task.clear();
  texts.data.path = options.unlabelled;
  texts.data.columns.label.clear();
  texts.data.columns.label_columns.clear();
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

// Where the policy goes: refused before anything runs.
std::filesystem::path policy_out(const CalibrateOptions& options) {
  if (is_trace_file(options.run.model) && options.out.empty())
    throw Error(Code::usage, "--out is required where only a trace is given", "for example --out policy.json");
  if (!options.out.empty()) return options.out;
  const Checkpoint model = Checkpoint::open(options.run.model);
  require_heads(model);
  return policy_path(model);
}

// Whether the model runs by its engine, so that its precision is open.
bool runs_engine(const CalibrateOptions& options) {
  const MeasureOptions& run = options.run;
  return !is_trace_file(run.model) && run.trace.empty() && run.from_server.empty() &&
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

// A promise about answers bounds no metric of rare classes: a notice where one fell by much more than was asked for.
void report_losses(const Calibrated& done, const Observer& observer) {
  const size_t rows = done.data.report.rows > 0 ? done.data.report.rows : done.data.certify.rows;
  for (size_t i = 0; i < done.calibration.outcomes.size(); ++i) {
    const double max_drop = done.calibration.outcomes[i].max_drop;
    for (size_t m = 0; m < done.scores[i + 1].metrics.size(); ++m) {
      const Score &full = done.scores.front().metrics[m], &early = done.scores[i + 1].metrics[m];
      if (!loses_much(full.value, early.value, max_drop, rows)) continue;
      observer.notice(
          fmt::format("{} falls from {:.2f} to {:.2f} with the policy for {:g}%, on {} texts: the promise is about {} "
                      "alone; ask for a smaller --max-drop or bring more rows",
                      name_of(full.metric), 100 * full.value, 100 * early.value, 100 * max_drop, rows,
                      name_of(done.calibration.entry.certificate->loss)));
    }
  }
}

// Times by the profile that the user names, which must know the precision of the rows.
double predicted(const CalibrateOptions& options, const Checkpoint& model, const PolicySpec& policy,
                 const ExitTrace& fit, const Observer& observer) {
  Measured measured{.trace = fit, .model = model};
  measured.profile = profile_of(options.run, measured, observer);
  if (!measured.profile) {
    throw Error(Code::usage, fmt::format("{}: has no times in {}", options.run.profile, fit.info.precision),
                "measure them with 'exeunt bench MODEL --save', or leave --profile out to measure here");
  }
  return *Scorer(fit, scorer_options(measured)).score(policy).predicted_ms;
}

CertifyOptions certify_options(const CalibrateOptions& options, const Checkpoint& model, const Observer& observer) {
  CertifyOptions out{.device = options.run.device,
                     .named = precision_named(options.run.precision),
                     .keep_wider = options.out.empty()};  // only the model's own policy may change its precision.json
  if (!options.run.profile.empty()) {
    out.predicted = [&](const PolicySpec& policy, const ExitTrace& fit) {
      return predicted(options, model, policy, fit, observer);
    };
  }
  return out;
}

// The range of a regression's values: the model's or the task's, else the user's, else the one that the fit part shows.
ValueRange range_for(const CalibrateOptions& options, const Measured& measured, const ExitTrace& fit,
                     const Observer& observer) {
  const bool regression = measured.trace.info.problem == Problem::regression;
  const auto known = label_range(measured);
  require_value_range(regression, known, options.range);
  if (!regression) return std::nullopt;
  if (known || options.range) return known ? known : options.range;
  const auto seen = observed_range(fit);
  if (seen) {
    observer.notice(fmt::format("range of the values: {:g} to {:g}, from {} of {} texts; --range names another",
                                seen->first, seen->second, fit.labelled() ? "the labels" : "the full-depth answers",
                                fit.rows));
  }
  return seen;
}

// Repeats are requests like all others in a log, and no draws of their own where somebody made them.
void report_repeats(const CalibrateOptions& options, const ExitTrace& rows, const Observer& observer) {
  const size_t repeats = rows.rows - distinct_rows(rows);
  if (repeats == 0 || options.plan.unit || !options.run.from_server.empty()) return;
  if (certified_unit(options.plan, rows) == CertifiedUnit::texts) return;
  observer.notice(
      fmt::format("{} of {} rows repeat another's text: the promise presumes that they came like this, as requests do; "
                  "--unit texts counts equal texts once",
                  repeats, rows.rows));
}

// A log of traffic that has changed, such as one from before and after an alarm, would certify the past. Tested with
// the policy that the fit part chooses.
void require_steady(const CalibrateOptions& options, const ExitTrace& log, const CalibrationData& parts,
                    const CalibrationPlan& plan) {
  if (options.run.from_server.empty()) return;
  const PolicySpec policy =
      plan.transfer ? plan.transfer->complete()
                    : try_families(parts, static_cast<int64_t>(parts.certify.rows), plan).front().expected.front();
  const RiskLoss loss = plan.loss.value_or(default_loss(log.info.problem));
  LossMeter meter(log, loss, plan.range);
  const std::vector<double> losses = meter.measure(policy).losses;
  // Each side of a loss by itself: nothing is promised of the texts on neither.
  for (const bool other : {false, true}) {
    const std::vector<size_t>& rows = other ? meter.others() : meter.counted();
    std::vector<bool> lost;
    for (const size_t row : rows)
      lost.push_back(losses[row] > (loss == RiskLoss::abs_diff ? plan.max_drops.front() : 0));
    const auto late = late_loss(lost, loss.max_false ? 0.005 : 0.01);
    if (!late) continue;
    const std::string which = info_of(loss).conditional ? fmt::format(" that full depth {} '{}'",
                                                                      other ? "does not call" : "calls", loss.label)
                                                        : "";
    throw Error(
        Code::failure,
        fmt::format("{}: the traffic has changed: of the last {} texts{} {:.2f} % lose more than they may, of the "
                    "{} before them {:.2f} %; a certificate of all would be one of the past",
                    options.run.from_server, late->rows, which, 100 * late->after, rows.size() - late->rows,
                    100 * late->before),
        fmt::format("--last {} certifies from those alone, --since TIME from another moment on",
                    log.rows - rows[rows.size() - late->rows]));
  }
}

// Chosen on the fit part alone, so that the other rows still test what was chosen before they were looked at.
std::vector<float> fitted_thresholds(const ExitTrace& fit, const Observer& observer) {
  const TraceInfo& info = fit.info;
  const std::vector<FittedThreshold> fitted = fit_thresholds(fit);
  const int64_t texts = fitted.front().texts + fitted.front().without;  // a row has gold for all labels or for none
  if (texts == 0)
    throw Error(Code::usage, "--thresholds fit: the rows have no labels", "name labelled rows with --data, or numbers");
  std::vector<float> logit_thresholds;
  double before = 0, after = 0;
  for (size_t label = 0; label < fitted.size(); ++label) {
    const FittedThreshold& one = fitted[label];
    logit_thresholds.push_back(one.logit);
    before += one.before / static_cast<double>(fitted.size());
    after += one.after / static_cast<double>(fitted.size());
    if (!one.fitted) {
      observer.notice(
          fmt::format("threshold of '{}': stays {:g}; {} texts with it and {} without it are too few to "
                      "fit one, want {} of each",
                      info.labels[label], threshold_of(one.logit), one.texts, one.without, kFewestToFit));
    }
  }
  observer.notice(fmt::format("thresholds fitted on {} texts: macro_f1 {:.2f} there, {:.2f} with those before", texts,
                              100 * after, 100 * before));
  if (std::all_of(logit_thresholds.begin(), logit_thresholds.end(), [](float logit) { return logit == 0; }))
    logit_thresholds.clear();
  return logit_thresholds;
}

// Other thresholds make another model of the same weights: the logits stay, what they answer does not.
void take_thresholds(const std::string& asked, const ExitTrace& fit, Measured& measured, const Observer& observer) {
  const bool fits = asked == "fit" && measured.trace.info.problem == Problem::multi_label;
  measured.model = fits ? with_logit_thresholds(*measured.model, fitted_thresholds(fit, observer))
                        : with_thresholds(*measured.model, asked);
  measured.trace.info.logit_thresholds = measured.model->exits().logit_thresholds;
  measured.trace.info.weights = weights_sha256(*measured.model);
}

void require_own_policy(const CalibrateOptions& options) {
  if (options.thresholds.empty()) return;
  if (is_trace_file(options.run.model)) {
    throw Error(Code::usage, "--thresholds: got a trace, want the model, which keeps them in its exits.json",
                "exeunt calibrate MODEL --trace FILE --thresholds fit");
  }
  if (!options.out.empty()) {
    throw Error(Code::usage, "--thresholds: they are changed in the model, and so goes the policy made for them",
                "omit --out");
  }
}

// A trace has the clusters that it was made with.
void take_clusters(const CalibrateOptions& options, ExitTrace& trace) {
  const std::string& by = options.run.data.columns.cluster;
  if (by.empty() || (options.run.trace.empty() && !is_trace_file(options.run.model) && options.run.from_server.empty()))
    return;
  if (by != kNoCluster)
    throw Error(Code::usage, fmt::format("--cluster: the column '{}' is read with the texts", by),
                "name --data instead of a trace");
  trace.cluster.clear();
}

// That of the rows which training held out is known to the model's recipe.
std::string cluster_column(const CalibrateOptions& options, const Measured& measured) {
  const DataSource& data = options.run.data;
  if (!data.columns.cluster.empty() || !data.path.empty() || !measured.model) return data.columns.cluster;
  const Json stored = json_in(measured.model->folder(), "recipe.json", {"run", "columns", "cluster"});
  return stored.is_string() ? stored.get<std::string>() : "";
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

// A certified entry of this precision: that of the engine that measured, else any.
PolicyEntry entry_to_transfer(const std::filesystem::path& path, const TraceInfo& info) {
  const PolicyFile file = policies_at(path, info.weights, info.precision);
  const PolicyEntry* found = file.find(info.engine, info.precision);
  if (found == nullptr || !found->certificate) {
    const auto any = std::find_if(file.entries.begin(), file.entries.end(), [&](const PolicyEntry& entry) {
      return entry.precision == info.precision && entry.certificate;
    });
    found = any == file.entries.end() ? nullptr : &*any;
  }
  if (found == nullptr || found->points.empty())
    throw_bad_file(path.string(), Hint{"certify one: exeunt calibrate MODEL --max-drop 1%"},
                   "no certified policy for {} to transfer", info.precision);
  if (info.precision_map && found->precision_map.value_or("") != *info.precision_map)
    throw_bad_file(path.string(), Hint{"calibrate anew, without --transfer"},
                   "the policy for {} was certified with another precision.json", info.precision);
  return *found;
}

std::optional<Precision> precision_in_force(const std::filesystem::path& path, const TraceInfo& info) {
  const PolicyFile file = policies_at(path, info.weights, info.precision);
  const PolicyEntry* entry = file.find(info.engine, file.default_precision);
  return entry != nullptr && entry->certificate ? precision_named(entry->precision) : std::nullopt;
}

// Where the certificate compares with fp32, the rows need fp32's answers, too.
void add_reference(Measured& measured, const CalibrateOptions& options, const Observer& observer) {
  ExitTrace& trace = measured.trace;
  if (!trace.reference.empty() || trace.info.precision == "fp32") return;
  if (!measured.model || !options.run.trace.empty() || !options.run.from_server.empty()) {
    throw Error(Code::bad_file, "the rows lack the answers of fp32, which the certificate compares with",
                "name the data instead of a trace: exeunt calibrate MODEL --data FILE --transfer");
  }
  MeasureOptions full = options.run;
  full.precision = "fp32";
  full.max_length = trace.info.max_length;
  set_reference(trace, measure(full, observer).trace);
}

}  // namespace

GroupPlan groups_of(const CalibrateOptions& options, const Measured& measured) {
  GroupPlan plan{.by = options.group};
  if (plan.by.empty() || plan.by == "label" || plan.by == "length" || plan.by == "exit") return plan;
  DataSource source = options.run.data;
  if (source.path.empty() || !source.task.empty() || !options.unlabelled.empty()) {
    throw Error(Code::usage, fmt::format("--group: the column '{}' is read from a file of your own", plan.by),
                "name it with --data alone, or group by label or length");
  }
  source.columns.label = plan.by;
  source.columns.labels.clear();
  source.columns.label_columns.clear();
  source.columns.problem = Problem::classification;
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

void report_majority(const ExitTrace& trace, const Observer& observer) {
  const TraceInfo& info = trace.info;
  if (info.problem != Problem::classification) return;
  std::vector<size_t> gold(info.labels.size());
  size_t labelled = 0, right = 0;
  for (size_t row = 0; row < trace.rows; ++row) {
    if (std::isnan(trace.gold[row])) continue;
    ++labelled;
    const auto label = static_cast<size_t>(trace.gold[row]);
    if (label < gold.size()) ++gold[label];
    right += trace.right(row, trace.full_depth(row)) ? 1 : 0;
  }
  const auto most = std::max_element(gold.begin(), gold.end());
  if (labelled == 0 || right > *most) return;
  observer.notice(
      fmt::format("the model is no better than answering '{}' to every text: {} of {} answers at full depth are "
                  "correct, against {}; "
                  "a promise about changed answers does not make it useful",
                  info.labels[static_cast<size_t>(most - gold.begin())], right, labelled, *most));
}

void report_rare_answers(const PolicyEntry& entry, const std::vector<std::string>& labels, const Observer& observer) {
  constexpr size_t kFew = 10;  // with many labels, every one of them is rare
  const Certificate& certificate = *entry.certificate;
  const std::vector<int64_t>& answers = certificate.answers;
  if (certificate.loss != RiskLoss::disagreement || !certificate.group_by.empty() || answers.size() != labels.size() ||
      labels.size() < 2 || labels.size() > kFew)
    return;
  const auto least = std::min_element(answers.begin(), answers.end(), [](int64_t a, int64_t b) {
    return a > 0 && (b == 0 || a < b);  // of the answers that occur
  });
  const double share =
      static_cast<double>(*least) /
      static_cast<double>(std::max<int64_t>(1, std::accumulate(answers.begin(), answers.end(), int64_t{0})));
  if (share > certificate.max_drop) return;
  observer.notice(fmt::format(
      "'{}' is {:.1f} % of the answers, and {:g} % may differ: all of them could change within the promise; "
      "'exeunt calibrate --group label' promises each class",
      labels[static_cast<size_t>(least - answers.begin())], 100 * share, 100 * certificate.max_drop));
}

void require_value_range(bool regression, const ValueRange& known, const ValueRange& named) {
  if (!named) return;
  if (!regression) throw Error(Code::usage, "--range: the model predicts classes, which have no range");
  if (known && known != named) {
    throw Error(Code::usage, fmt::format("--range: got {:g} to {:g}, and the model's values are from {:g} to {:g}",
                                         named->first, named->second, known->first, known->second));
  }
}

Calibrated calibrate_model(const CalibrateOptions& options, const Observer& observer) {
  Calibrated done;
  done.out = policy_out(options);
  require_own_policy(options);
  const PolicyLock lock(done.out);  // before the model runs, so that a second calibration fails at once
  const bool engine = runs_engine(options);
  CalibrateOptions first = options;
  if (engine) first.run.precision = name_of(Precision::fp32);
  Measured measured = measured_for(first, observer);
  take_clusters(options, measured.trace);
  const std::vector<size_t> rows = keep_new_rows(measured, options, observer);
  require_policy_precision(measured.trace);
  const auto split = [&] {
    return split_for_calibration(measured.trace, options.seed,
                                 shares_for(measured.trace, options.plan, options.report));
  };
  CalibrationData parts = split();
  report_repeats(options, measured.trace, observer);
  const std::vector<float> old_thresholds = measured.trace.info.logit_thresholds;
  if (!options.thresholds.empty()) {
    take_thresholds(options.thresholds, parts.fit, measured, observer);
    parts = split();  // the same rows
  }
  done.logit_thresholds = measured.trace.info.logit_thresholds;
  CalibrationPlan plan = options.plan;
  plan.range = range_for(options, measured, parts.fit, observer);
  plan.group = groups_of(options, measured);
  plan.cluster_by = cluster_column(options, measured);
  if (measured.model) plan.family = model_family(*measured.model);
  std::optional<TracedTexts> texts;
  std::optional<ModelCertifier> certifier;
  done.data = parts;
  if (engine) {
    texts.emplace(texts_of(options, measured));
    CertifyOptions how = certify_options(options, *measured.model, observer);
    how.in_force = precision_in_force(done.out, measured.trace.info);
    certifier.emplace(*measured.model, *texts, parts, rows, std::move(how), observer);
    static_cast<CertifiedChoice&>(done) = certifier->run(plan);
  } else {
    require_steady(options, measured.trace, parts, plan);  // before a try is spent on these rows
    count_try(done.data, plan, observer);
    done.calibration = calibrate(done.data, plan);
  }

  const auto reported = [](const CalibrationData& data) { return data.report.rows > 0 ? data.report : data.certify; };
  const ExitTrace full_depth = reported(parts), early = reported(done.data);
  done.scores.push_back(Scorer(full_depth, scorer_options(measured)).score(PolicySpec{}));
  if (engine) {
    if (certifier->new_exceptions(done.setting))  // before the policy, which is bound to them
      write_exceptions(*measured.model, done.setting.precision, done.setting.exceptions);
    measured.trace = done.data.certify;
    measured.profile = profile_of(options.run, measured, observer);
  }
  if (done.logit_thresholds != old_thresholds)
    write_thresholds(measured.model->folder(), done.logit_thresholds);  // before the policy, likewise
  keep_policy(lock, done.out, measured, done.calibration.entry, !done.trials.empty());
  Scorer scorer(early, scorer_options(measured));
  for (const DropOutcome& outcome : done.calibration.outcomes) done.scores.push_back(scorer.score(outcome.policy));
  report_losses(done, observer);
  report_majority(reported(done.data), observer);
  report_rare_answers(done.calibration.entry, done.data.certify.info.labels, observer);
  return done;
}

Calibrated transfer_policy(const CalibrateOptions& options, const Observer& observer) {
  Calibrated done;
  done.out = policy_out(options);
  const PolicyLock lock(done.out);
  Measured measured = measure(options.run, observer);
  take_clusters(options, measured.trace);
  require_policy_precision(measured.trace);
  const PolicyEntry entry = entry_to_transfer(done.out, measured.trace.info);
  const Certificate& certificate = *entry.certificate;
  if (certificate.reference == LossReference::fp32) add_reference(measured, options, observer);
  keep_new_rows(std::array{&measured.trace}, options.run.strict_new, observer);

  CalibrationPlan plan{
      .max_drops = {}, .delta = certificate.delta, .loss = certificate.loss, .method = certificate.method};
  plan.exits = entry.exits;
  plan.unit = certificate.unit;
  plan.cluster_by = cluster_column(options, measured);
  plan.range = label_range(measured);
  if (certificate.range.size() == 2) plan.range = {certificate.range[0], certificate.range[1]};
  for (const PolicyPoint& point : entry.points) plan.max_drops.push_back(point.max_drop);
  plan.transfer = entry;
  if (measured.model) plan.family = model_family(*measured.model);
  CalibrateOptions grouped = options;
  grouped.group = certificate.group_by;
  plan.group = groups_of(grouped, measured);
  done.data = split_for_calibration(measured.trace, certificate.seed.value_or(options.seed),
                                    shares_for(measured.trace, plan, options.report));
  if (certificate.fit.row_hashes.empty() || certificate.fit.row_hashes != rows_sha256(done.data.fit))
    observer.notice(
        "these are not the rows of the first certificate: those that chose the policy must not be among them");
  if (!certificate.groups.empty() && certificate.group_by.empty())
    observer.notice("the certificate does not name its grouping: only the promise for all texts is transferred");
  require_steady(options, measured.trace, done.data, plan);
  // On the rows of the first certificate it is a later try, also where that was made on another machine.
  if (!certificate.certify.row_hashes.empty() && certificate.certify.row_hashes == rows_sha256(done.data.certify))
    plan.least_try = std::max(1, certificate.tries) + 1;
  count_try(done.data, plan, observer);
  done.calibration = calibrate(done.data, plan);
  keep_policy(lock, done.out, measured, done.calibration.entry);
  Scorer scorer(done.data.report.rows > 0 ? done.data.report : done.data.certify, scorer_options(measured));
  done.scores.push_back(scorer.score(PolicySpec{}));
  for (const DropOutcome& outcome : done.calibration.outcomes) done.scores.push_back(scorer.score(outcome.policy));
  return done;
}

}  // namespace exeunt
