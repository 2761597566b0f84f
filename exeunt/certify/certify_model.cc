// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/certify_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/quantize.h"
#include "exeunt/certify/risk.h"
#include "exeunt/certify/tries.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

constexpr int kSearchTrials = 24;  // passes over the texts in the search for matrices to keep wider

// Clocks are wrong by a few percent; a narrower precision must gain more than that.
constexpr double kWorthwhile = 0.95;
// What is certified stays unless another gains much: else the same command would be another try when the machine is
// busy.
constexpr double kWorthChanging = 0.8;

constexpr double kFaster = 1.05;  // less is printed as 1.0 times

// A low precision that uses up more than this share of the budget at full depth leaves too little to exits.
constexpr double kShareOfMaxDrop = 0.25;

class Choosing {
 public:
  Choosing(const CalibrationData& fp32, const PrecisionPlan& plan) : fp32_(fp32), plan_(plan) {}

  PrecisionChoice run() {
    fallback_ms_ = plan_.milliseconds({}, {}, fp32_.fit);
    attempt({});
    for (const PrecisionSetting& candidate : plan_.candidates) {
      attempt(candidate);
      attempt_with_wider_matrices();
      attempt_with_narrow_poolers();
    }
    return std::move(out_);
  }

 private:
  void attempt_with_wider_matrices() {
    const PrecisionTrial& last = out_.trials.back();
    const double most = kShareOfMaxDrop * plan_.calibration.max_drops.front();
    if (!plan_.keep_wider || !last.setting.exceptions.empty() || last.changed <= most) return;
    const Exceptions exceptions = plan_.keep_wider(last.setting, fp32_.fit, most);
    if (!exceptions.empty()) attempt({last.setting.precision, exceptions});
  }

  void attempt_with_narrow_poolers() {
    PrecisionSetting setting = out_.trials.back().setting;
    if (!plan_.poolers || setting.precision != Precision::int8) return;
    if (setting.exceptions.emplace(kPoolers, Precision::int8).second) attempt(setting);
  }

  void attempt(const PrecisionSetting& setting) {
    const bool first = out_.trials.empty();
    CalibrationData data = fp32_;
    if (!first) data.fit = plan_.trace(setting);
    set_reference(data.fit, fp32_.fit);
    PrecisionTrial trial{.setting = setting};
    trial.changed = change_between(fp32_.fit, data.fit, {}).changed;
    trial.family = try_families(data, static_cast<int64_t>(fp32_.certify.rows), plan_.calibration).front();
    if (std::isfinite(trial.family.cost_fraction)) {
      trial.chance = first ? 1 : chance_to_pass(trial.changed);
      const double full_ms = first ? fallback_ms_ : plan_.milliseconds(setting, {}, data.fit);
      trial.milliseconds = std::min(full_ms, plan_.milliseconds(setting, trial.family.expected.front(), data.fit));
      trial.expected_ms = with_fallback(trial.chance, trial.milliseconds);
      if (!first && is_step(setting)) fallback_ms_ = with_fallback(trial.chance, full_ms);
    }
    const bool renewed = setting == plan_.in_force;
    const bool better = first || trial.expected_ms < worthwhile(renewed) * out_.chosen().expected_ms;
    out_.trials.push_back(std::move(trial));
    if (!better) return;
    out_.best = out_.trials.size() - 1;
    out_.fit = std::move(data.fit);
  }

  // The ratio of times below which a setting is chosen instead of the one chosen so far.
  [[nodiscard]] double worthwhile(bool renewed) const {
    if (renewed) return 1 / kWorthChanging;
    return out_.chosen().setting == plan_.in_force ? kWorthChanging : kWorthwhile;
  }

  // Expected time, if what fails its test is replaced by full depth in a wider precision.
  [[nodiscard]] double with_fallback(double chance, double milliseconds) const {
    return chance * milliseconds + (1 - chance) * fallback_ms_;
  }

  // Whether certify_choice() would test full depth in this setting on the way to a narrower one.
  [[nodiscard]] bool is_step(const PrecisionSetting& setting) const {
    return std::find(plan_.candidates.begin(), plan_.candidates.end(), setting) != plan_.candidates.end();
  }

  // A small fit part may show no changed answer where the certify part has some, and fp32 risks none at full depth. So
  // the chance is that of the certify part given the fit part, with Jeffreys' prior for the share that changes.
  [[nodiscard]] double chance_to_pass(double changed) const {
    if (fp32_.fit.info.problem == Problem::regression) return 1;
    const auto rows = static_cast<double>(fp32_.fit.rows);
    const auto certify = static_cast<int64_t>(fp32_.certify.rows);
    const CalibrationPlan& plan = plan_.calibration;
    const double max_drop = plan.max_drops.front();
    const int64_t allowed = losses_allowed(certify, max_drop, plan.delta * budget_share(plan, max_drop));
    return beta_binomial_cdf(allowed, certify, changed * rows + 0.5, (1 - changed) * rows + 0.5);
  }

  const CalibrationData& fp32_;
  const PrecisionPlan& plan_;
  double fallback_ms_ = 0;  // of full depth in the narrowest precision so far that is expected to pass its test
  PrecisionChoice out_ = {};
};

// `named` alone, in the same form. Nothing is tried.
PrecisionChoice named_precision(const CalibrationData& fp32, const PrecisionSetting& named, const PrecisionPlan& plan) {
  PrecisionChoice out{.trials = {{.setting = named}}};
  out.fit = named == PrecisionSetting{} ? fp32.fit : plan.trace(named);
  set_reference(out.fit, fp32.fit);
  return out;
}

}  // namespace

ModelCertifier::ModelCertifier(const Checkpoint& model, const TracedTexts& texts, const CalibrationData& fp32,
                               std::span<const size_t> rows, CertifyOptions options, const Observer& observer)
    : model_(model),
      engine_(engine_traits(model, options.device)),
      map_(precision_map_on(engine_.name, model.folder(), model.spec())),
      texts_(texts),
      fp32_(fp32),
      rows_(rows),
      options_(std::move(options)),
      observer_(observer) {}

CertifiedChoice ModelCertifier::run(CalibrationPlan plan) const {
  PrecisionChoice choice = choose(plan);
  const PrecisionSetting setting = choice.chosen().setting;
  CertifiedChoice out;
  if (options_.named) {
    out = {.setting = setting, .data = traced(setting, choice.fit)};
    count_try(out.data, plan, observer_);
    out.calibration = calibrate(out.data, plan);
  } else {
    std::vector<CertifyStep> steps{{{}, [&] { return traced({}, fp32_.fit); }}};
    for (size_t i = 1; i < choice.best; ++i) {
      const PrecisionSetting wider = choice.trials[i].setting;
      if (wider.precision != setting.precision && std::isfinite(choice.trials[i].expected_ms))
        steps.push_back({wider, [this, wider] { return traced(wider, texts_.trace(wider, places(fp32_.fit_rows))); }});
    }
    if (choice.best > 0) steps.push_back({setting, [&] { return traced(setting, choice.fit); }});
    out = certify_choice(steps, plan, observer_);
    out.trials = std::move(choice.trials);
  }
  std::vector<TimedRun> runs{{}, {.setting = out.setting}};
  for (const PolicyPoint& point : out.calibration.entry.points)
    runs.push_back({out.setting, out.calibration.entry.complete(point.policy), point.exit_rates});
  const std::vector<size_t> rows = places(fp32_.report.rows > 0 ? fp32_.report_rows : fp32_.certify_rows);
  out.times = texts_.times(runs, rows);
  RunTimes by = out.times;
  if (options_.predicted && !options_.named) {  // the times that chose the precision decide
    by.steady = true;
    for (size_t i = 1; i < runs.size(); ++i) by.milliseconds[i] = options_.predicted(runs[i].policy, out.data.fit);
  }
  drop_slow_exits(out, by, plan);
  return out;
}

PrecisionChoice ModelCertifier::choose(const CalibrationPlan& calibration) const {
  PrecisionPlan plan{.calibration = calibration};
  plan.trace = [&](const PrecisionSetting& setting) { return texts_.trace(setting, places(fp32_.fit_rows)); };
  if (options_.named) return named_precision(fp32_, {*options_.named, map_.exceptions(*options_.named)}, plan);
  for (const Precision precision : {Precision::bf16, Precision::int8})
    if (supports(engine_, precision)) plan.candidates.push_back({precision, map_.exceptions(precision)});
  if (options_.in_force) plan.in_force = {*options_.in_force, map_.exceptions(*options_.in_force)};
  plan.milliseconds = [&](const PrecisionSetting& setting, const PolicySpec& policy, const ExitTrace& fit) {
    return options_.predicted
               ? options_.predicted(policy, fit)
               : texts_.times(std::vector<TimedRun>{{setting, policy}}, places(fp32_.fit_rows)).milliseconds.front();
  };
  if (options_.keep_wider && device_of(engine_.name) == "cpu") {  // where matrices can have precisions of their own
    plan.keep_wider = [&](const PrecisionSetting& setting, const ExitTrace&, double most) {
      return kept_wider(setting.precision, most);
    };
    plan.poolers = model_.exits().poolers() > 0;
  }
  return choose_precision(fp32_, plan);
}

// All parts in one precision, each with fp32 as its reference; `fit` is that part in it.
CalibrationData ModelCertifier::traced(const PrecisionSetting& setting, const ExitTrace& fit) const {
  CalibrationData out = fp32_;
  out.fit = fit;
  set_reference(out.fit, fp32_.fit);
  const auto run = [&](ExitTrace& part, const PartRows& rows) {
    const ExitTrace fp32 = part;
    if (part.rows > 0 && setting != PrecisionSetting{}) part = texts_.trace(setting, places(rows), observer_.progress);
    set_reference(part, fp32);
  };
  run(out.certify, out.certify_rows);
  run(out.report, out.report_rows);
  return out;
}

bool ModelCertifier::new_exceptions(const PrecisionSetting& setting) const {
  return setting.precision != Precision::fp32 && setting.exceptions != map_.exceptions(setting.precision);
}

std::vector<size_t> ModelCertifier::places(const PartRows& part) const {
  std::vector<size_t> out;
  for (const size_t row : part.row) out.push_back(rows_[row]);
  return out;
}

Exceptions ModelCertifier::kept_wider(Precision precision, double most) const {
  const Precision wider = engine_.bf16 ? Precision::bf16 : Precision::fp32;
  if (precision == wider) return {};  // a matrix "kept" in its own precision changes nothing
  std::vector<size_t> rows = places(fp32_.fit_rows);
  if (options_.search_texts > 0 && rows.size() > options_.search_texts) rows.resize(options_.search_texts);
  std::vector<size_t> first(rows.size());
  std::iota(first.begin(), first.end(), size_t{0});
  const std::span<const size_t> few(rows.data(), std::min(rows.size(), kRankingTexts));
  const QuantizePlan plan{.matrices = matrix_names(model_.spec()),
                          .higher = wider,
                          .max_changed = most,
                          .max_accuracy_drop = 1,
                          .trials = kSearchTrials,
                          .trace =
                              [&](const Exceptions& exceptions, bool part) {
                                return texts_.trace({precision, exceptions}, part ? few : std::span(rows));
                              },
                          .notice = observer_.notice};
  return choose_exceptions(select_rows(fp32_.fit, first), select_rows(fp32_.fit, std::span(first).first(few.size())),
                           plan)
      .exceptions;
}

std::optional<Speedup> CertifiedChoice::speedup(size_t budget) const {
  if (!times.steady) return std::nullopt;
  const std::vector<double>& ms = times.milliseconds;
  return Speedup{.precision = ms[0] / ms[1], .exits = ms[1] / ms[budget + 2]};
}

void drop_slow_exits(CertifiedChoice& choice, const RunTimes& by, CalibrationPlan plan) {
  Calibration& kept = choice.calibration;
  std::vector<size_t> slow;
  for (size_t i = 0; i < kept.outcomes.size(); ++i)
    if (kept.outcomes[i].policy.rule != PolicySpec{}.rule && by.milliseconds[i + 2] >= by.milliseconds[1])
      slow.push_back(i);
  if (!by.steady || plan.transfer || slow.empty()) return;
  plan.exits = {choice.data.fit.info.layers.back()};
  plan.or_full_depth = true;
  Calibration full = calibrate(choice.data, plan);
  full.entry.certificate->tries = kept.entry.certificate->tries;
  full.entry.certificate->ledger = kept.entry.certificate->ledger;
  for (const size_t i : slow) {
    choice.times.milliseconds[i + 2] = choice.times.milliseconds[1];
    kept.outcomes[i] = full.outcomes[i];
    kept.entry.points[i] = full.entry.points[i];
    kept.entry.points[i].exit_rates.insert(kept.entry.points[i].exit_rates.begin(), kept.entry.exits.size() - 1, 0);
  }
  if (slow.front() == 0) {
    kept.entry.policy = full.entry.policy;
    kept.entry.certificate = full.entry.certificate;
  }
  if (slow.size() == kept.outcomes.size()) kept = std::move(full);
}

std::string verdict_of(const CertifiedChoice& choice) {
  const PolicyEntry& entry = choice.calibration.entry;
  const bool exits = entry.policy.rule != PolicySpec{}.rule;
  const std::string by_exits =
      exits ? fmt::format("exits after {}", fmt::join(entry.exits, ", ")) : std::string("every text runs all layers");
  if (choice.times.milliseconds.empty())
    return fmt::format("{:.2f} times fewer layers: {}", 1 / choice.calibration.outcomes.front().report_cost, by_exits);
  const std::string setting = str(choice.setting);
  const std::optional<Speedup> speedup = choice.speedup();
  if (!speedup)
    return fmt::format("{}, {}; the machine is too busy to tell how much faster that is", setting, by_exits);
  const bool fp32 = choice.setting == PrecisionSetting{};
  if (speedup->total() < kFaster || (fp32 && !exits)) return fmt::format("not faster: {}, {}", setting, by_exits);
  const std::string total = fmt::format("{:.1f} times faster than fp32 at full depth", speedup->total());
  if (fp32) return fmt::format("{}, by {}", total, by_exits);
  if (!exits) return fmt::format("{}, by {} alone: {}", total, setting, by_exits);
  if (std::min(speedup->precision, speedup->exits) < 1) return fmt::format("{}: {}, {}", total, setting, by_exits);
  return fmt::format("{}: {:.1f} by {}, {:.1f} by {}", total, speedup->precision, setting, speedup->exits, by_exits);
}

PrecisionChoice choose_precision(const CalibrationData& fp32, const PrecisionPlan& plan) {
  return Choosing(fp32, plan).run();
}

CertifiedChoice certify_choice(std::span<const CertifyStep> steps, CalibrationPlan plan, const Observer& observer) {
  CertifiedChoice out{.setting = steps.back().setting, .data = steps.back().data()};
  count_try(out.data, plan, observer);
  size_t passed = 0;
  CalibrationData last_passed;
  for (; passed + 1 < steps.size(); ++passed) {
    const bool narrowest = passed + 2 == steps.size();
    CalibrationData data = narrowest ? out.data : steps[passed + 1].data();
    if (!full_depth_passes(data, plan)) break;
    last_passed = std::move(data);
  }
  if (passed + 1 < steps.size()) {
    observer.notice(fmt::format(
        "{} was chosen, but {} at full depth does not keep {:g} % on the certification texts: {} is certified instead",
        str(out.setting), str(steps[passed + 1].setting), 100 * plan.max_drops.front(), str(steps[passed].setting)));
    out.setting = steps[passed].setting;
    out.data = passed == 0 ? steps[0].data() : std::move(last_passed);
    plan.or_full_depth = true;
    count_try(out.data, plan, observer);
  }
  out.calibration = calibrate(out.data, plan);
  return out;
}

}  // namespace exeunt
