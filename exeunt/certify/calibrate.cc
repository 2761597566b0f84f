// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/calibrate.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"
#include "exeunt/certify/shift.h"
#include "exeunt/certify/temperature.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

constexpr double kLeastMaxDrop = 1e-5;  // which already takes 300,000 examples
constexpr double kFirstShare = 0.8;     // of delta, for the budget that runs where there are several

// Of the delta of a plan, before tries are counted.
double budget_share(const CalibrationPlan& plan, double max_drop) {
  if (plan.max_drops.size() == 1) return 1;
  if (max_drop == plan.max_drops.front()) return kFirstShare;
  return (1 - kFirstShare) / static_cast<double>(plan.max_drops.size() - 1);
}

RiskLoss loss_of(const CalibrationPlan& plan, const ExitTrace& trace) {
  return plan.loss.value_or(default_loss(trace.info.problem));
}

// A plan for these rows, with its open questions answered by the model.
struct Settled {
  const CalibrationData& data;
  const CalibrationPlan& plan;
  Grouping grouping;
  RiskLoss loss = {};
  std::vector<RiskMethod> methods = {};  // to choose from
  RiskMethod method = {};                // of the tests
  double delta = 0;                      // of all budgets
  ValueRange range = {};

  [[nodiscard]] RiskTest test(double max_drop) const {
    return {loss, method, max_drop, delta * budget_share(plan, max_drop)};
  }
  [[nodiscard]] LossMeter meter(const ExitTrace& part) const { return {part, loss, range}; }
  // What the test of a part needs besides the losses of its rows.
  [[nodiscard]] Sample sample(const ExitTrace& part, const PartRows& rows) const {
    return {.weights = {}, .groups = grouping.rows_of(part, rows)};
  }
};

Settled settle(const CalibrationData& data, const CalibrationPlan& plan) {
  const auto refuse = [](const std::string& why) { throw Error(Code::usage, why); };
  if (plan.max_drops.empty()) refuse("no maximum drop, want for example --max-drop 1%");
  for (size_t i = 0; i < plan.max_drops.size(); ++i) {
    if (!(plan.max_drops[i] >= kLeastMaxDrop && plan.max_drops[i] < 1))
      refuse(fmt::format("budget: got {}, want a share from {} to below 1", plan.max_drops[i], kLeastMaxDrop));
    if (i > 0 && plan.max_drops[i] <= plan.max_drops[i - 1]) refuse("budgets: want increasing values");
  }
  if (!(plan.delta > 0 && plan.delta < 1))
    refuse(fmt::format("confidence: got {}, want a share above 0 and below 1", 1 - plan.delta));
  Settled settled{data, plan, Grouping(plan.group, data)};
  settled.loss = loss_of(plan, data.fit);
  const bool counts = settled.loss != RiskLoss::abs_diff;
  if (plan.method) {
    settled.methods = {*plan.method};
  } else {
    if (counts) settled.methods.push_back(RiskMethod::ltt_binomial);
    if (!counts || settled.loss == RiskLoss::zero_one_drop) settled.methods.push_back(RiskMethod::wsr);
  }
  settled.method = settled.methods.front();
  if (settled.method == RiskMethod::ltt_binomial && !counts)
    refuse(fmt::format("method 'ltt-binomial' counts losses of 0 and 1, and '{}' has others; use wsr, ltt-hb or crc",
                       name_of(settled.loss)));
  settled.delta = plan.tries > 0 ? plan.delta * share_of_try(plan.tries) : plan.delta;
  settled.range = range_or_observed(plan.range, data.fit);
  return settled;
}

void refuse_too_few(const Settled& settled, const Sample& certify) {
  const CalibrationData& data = settled.data;
  const CalibrationPlan& plan = settled.plan;
  const RiskTest test = settled.test(plan.max_drops.front());
  const int64_t needed = rows_without_loss(test, certify.weights);
  const auto refuse_below = [&](size_t rows, const std::string& where) {
    if (static_cast<int64_t>(rows) >= needed) return;
    const double total = static_cast<double>(data.fit.rows + data.certify.rows + data.report.rows);
    const double all = std::ceil(static_cast<double>(needed) * total / static_cast<double>(std::max<size_t>(rows, 1)));
    const std::string certainty =
        settled.method == RiskMethod::crc
            ? "in expectation"
            : fmt::format("at {:.4g} %{}", 100 * (1 - plan.delta),
                          plan.tries > 1 ? fmt::format(" (try {} on these texts)", plan.tries) : "");
    const std::string best = rows > 0
                                 ? fmt::format(", or allow more: {} examples certify {:.3g} % at best", rows,
                                               100 * least_max_drop(test, static_cast<int64_t>(rows), certify.weights))
                                 : "";
    throw Error(Code::failure,
                fmt::format("not enough data: certifying {:.4g} % {} takes {} examples without a loss, and {} has {}",
                            100 * test.max_drop, certainty, needed, where, rows),
                fmt::format("provide {} examples in total, add texts without labels (--unlabelled FILE){}", all, best));
  };
  refuse_below(data.certify.rows, "the certify part");
  for (size_t i = 0; i < certify.groups.size(); ++i)
    refuse_below(certify.groups[i].size(), fmt::format("the group '{}' of it", settled.grouping.names()[i]));
}

FamilyScope scope_of(const Settled& settled) {
  const CalibrationData& data = settled.data;
  FamilyScope scope{data.fit.sites(), settled.plan.exits, {}, 0};
  if (settled.range) scope.range = static_cast<float>(settled.range->second - settled.range->first);
  if (settled.plan.temperatures) scope.temperature = decision_temperatures(data.fit);
  return scope;
}

struct Choice {
  std::vector<Candidate> candidates;
  std::vector<FamilyTrial> trials;
};

// How far a family is expected to go by the method that is set, as if the losses of the fit part were those to come.
FamilyTrial expected(const Settled& settled, const std::vector<Candidate>& candidates, LossMeter& fit,
                     int64_t certify_rows) {
  const Sample sample = settled.sample(settled.data.fit, settled.data.fit_rows);
  FamilyTrial trial{.method = settled.method, .cost_fraction = 0};
  const std::vector<double>& max_drops = settled.plan.max_drops;
  for (const double max_drop : max_drops) {
    const auto passes = [&](const PolicySpec& policy) {
      return would_pass(settled.test(max_drop), fit.measure(policy).losses, certify_rows, sample);
    };
    size_t last = 0;
    if (!passes(candidates.front().policy)) trial.cost_fraction = INFINITY;
    while (last + 1 < candidates.size() && passes(candidates[last + 1].policy)) ++last;
    trial.cost_fraction += candidates[last].cost_fraction / static_cast<double>(max_drops.size());
    trial.expected.push_back(candidates[last].policy);
  }
  return trial;
}

// The family and the method that should be cheapest once certified, by the fit part alone; the method becomes that of
// the tests.
Choice choose_family(Settled& settled, const FamilyScope& scope, LossMeter& fit, int64_t certify_rows) {
  const CalibrationPlan& plan = settled.plan;
  const std::vector<std::string> families =
      plan.families.empty() ? families_for(scope.sites, Families::usual) : plan.families;
  // So much cheaper has another family to be than those before it: the least of several estimates from few rows is too
  // low, and choosing by it cost layers (certify_figures_test).
  const double margin = 1 + 1 / std::sqrt(static_cast<double>(settled.data.fit.rows));
  Choice choice;
  for (const std::string& family : families) {
    std::vector<Candidate> candidates = order_candidates(family, scope, fit);
    FamilyTrial trial{.cost_fraction = INFINITY};
    for (const RiskMethod method : settled.methods) {
      settled.method = method;
      FamilyTrial one = expected(settled, candidates, fit, certify_rows);
      if (trial.expected.empty() || one.cost_fraction < trial.cost_fraction) trial = std::move(one);
    }
    trial.family = family;
    if (choice.trials.empty() || trial.cost_fraction * margin < choice.trials.front().cost_fraction) {
      choice.candidates = std::move(candidates);
      choice.trials.insert(choice.trials.begin(), std::move(trial));
    } else {
      choice.trials.push_back(std::move(trial));
    }
  }
  settled.method = choice.trials.front().method;
  return choice;
}

// Full depth, then the points of an entry from most conservative to most aggressive.
Choice points_of(const PolicyEntry& entry, LossMeter& fit) {
  Choice choice;
  const auto add = [&](const PolicySpec& rule) {
    const PolicySpec policy = entry.complete(rule);
    choice.candidates.push_back({.policy = policy, .cost_fraction = fit.measure(policy).cost_fraction});
  };
  add(PolicySpec{});
  for (const PolicyPoint& point : entry.points)
    if (point.policy != PolicySpec{}) add(point.policy);
  return choice;
}

double total_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

double mean_of(const std::vector<double>& losses) {
  return losses.empty() ? 0 : total_of(losses) / static_cast<double>(losses.size());
}

// Those that come ten times or more, and are so many of all rows.
FrequentTexts frequent_texts(const ExitTrace& part, const std::vector<double>& losses) {
  constexpr double kShare = 0.001;
  std::map<uint64_t, std::pair<int64_t, double>> texts;  // rows, and what one of them loses
  for (size_t row = 0; row < part.row_hash.size(); ++row) {
    auto& [count, loss] = texts[part.row_hash[row]];
    ++count;
    loss = losses[row];
  }
  const auto rows = static_cast<double>(part.rows);
  FrequentTexts out;
  for (const auto& [hash, text] : texts) {
    const auto& [count, loss] = text;
    if (static_cast<double>(count) < std::max(10.0, kShare * rows)) continue;
    const double share = static_cast<double>(count) / rows;
    ++out.texts;
    out.share += share;
    if (loss <= 0) continue;
    ++out.lost;
    out.lost_share += share;
  }
  return out;
}

// The parts that test and report, with their losses.
struct Parts {
  explicit Parts(const Settled& s)
      : settled(s),
        data(s.data),
        sample(s.sample(data.certify, data.certify_rows)),
        certify(s.meter(data.certify)),
        report(s.meter(data.report)) {}

  const Settled& settled;
  const CalibrationData& data;
  Sample sample;  // of the certify part
  LossMeter certify, report;
};

std::vector<GroupOutcome> group_outcomes(const Parts& parts, const std::vector<double>& certify,
                                         const std::vector<double>& report) {
  std::vector<GroupOutcome> out;
  const auto reported = parts.settled.grouping.rows_of(parts.data.report, parts.data.report_rows);
  for (size_t i = 0; i < parts.sample.groups.size(); ++i) {
    const std::vector<size_t>& rows = parts.sample.groups[i];
    GroupOutcome group{.name = parts.settled.grouping.names()[i], .rows = static_cast<int64_t>(rows.size())};
    group.losses = total_of(picked_losses(certify, rows));
    group.report_rows = static_cast<int64_t>(reported[i].size());
    const std::vector<double> fresh = picked_losses(report, reported[i]);
    group.report = mean_of(fresh);
    group.interval = loss_interval(parts.settled.loss, fresh);
    out.push_back(std::move(group));
  }
  return out;
}

SequenceResult test_settings(const RiskTest& test, const std::vector<Candidate>& candidates, Parts& parts) {
  const auto losses = [&](size_t i) { return parts.certify.measure(candidates[i].policy).losses; };
  return certify_sequence(test, candidates.size(), losses, parts.sample);
}

DropOutcome certify_drop(const RiskTest& test, const std::vector<Candidate>& candidates, Parts& parts,
                         bool or_full_depth) {
  SequenceResult verdict = test_settings(test, candidates, parts);
  if (!verdict.setting && or_full_depth) verdict = {.setting = 0, .p_value = 0};
  if (!verdict.setting) {
    const double full = parts.certify.measure(candidates.front().policy).mean_loss();
    throw Error(
        Code::failure,
        fmt::format("nothing stays within {:.4g} %: {} differs from the reference by {:.2f} % even at full depth",
                    100 * test.max_drop, parts.data.certify.info.precision, 100 * full),
        "allow more with --max-drop, keep more matrices in a higher precision, or use another precision");
  }
  DropOutcome outcome;
  outcome.max_drop = test.max_drop;
  outcome.policy = candidates[*verdict.setting].policy;
  outcome.p_value = verdict.p_value;
  const LossMeter::Measured tested = parts.certify.measure(outcome.policy);
  outcome.losses = test.method == RiskMethod::ltt_binomial ? lost_sum(tested.losses) : total_of(tested.losses);
  outcome.certify_cost = outcome.report_cost = tested.cost_fraction;
  outcome.certify = outcome.report = mean_of(tested.losses);
  outcome.frequent = frequent_texts(parts.data.certify, tested.losses);
  std::vector<double> fresh;
  if (parts.data.report.rows > 0) {
    LossMeter::Measured seen = parts.report.measure(outcome.policy);
    outcome.report_cost = seen.cost_fraction;
    outcome.report = mean_of(seen.losses);
    outcome.interval = loss_interval(test.loss, seen.losses);
    fresh = std::move(seen.losses);
  }
  outcome.groups = group_outcomes(parts, tested.losses, fresh);
  return outcome;
}

// The origin of the rows; an imported trace that does not name one is its own origin.
DataPart part_of(const ExitTrace& trace, int64_t rows) {
  const auto bytes = std::as_bytes(std::span(trace.logits));
  return {trace.info.data.empty() ? sha256_hex(bytes) : trace.info.data, rows, rows_sha256(trace)};
}

// Rule and parameters alone, as the text form has them.
PolicySpec rule_part(PolicySpec policy) {
  policy.exits.clear();
  policy.temperature.clear();
  policy.score_temperature.clear();
  return policy;
}

// The share of rows that leave at each of `exits`, which are layers; the engine plans with it.
std::vector<float> exit_rates(const ExitTrace& trace, const PolicySpec& policy, const std::vector<int>& exits) {
  std::vector<int64_t> left(exits.size(), 0);
  for (const uint8_t site : replay(trace, policy, trace.info.last_head).exit) {
    const int layer = trace.info.layers[site];
    ++left[static_cast<size_t>(std::find(exits.begin(), exits.end(), layer) - exits.begin())];
  }
  std::vector<float> rates;
  for (const int64_t rows : left) rates.push_back(static_cast<float>(rows) / static_cast<float>(trace.rows));
  return rates;
}

Certificate certificate_of(const CalibrationPlan& plan, const Parts& parts, const DropOutcome& first) {
  const CalibrationData& data = parts.data;
  const Settled& settled = parts.settled;
  Certificate certificate;
  certificate.loss = settled.loss;
  certificate.method = settled.method;
  certificate.max_drop = plan.max_drops.front();
  certificate.delta = plan.delta;
  certificate.rows = static_cast<int64_t>(data.certify.rows);
  certificate.losses = first.losses;
  certificate.budgets = static_cast<int>(plan.max_drops.size());
  certificate.fit = part_of(data.fit, static_cast<int64_t>(data.fit.rows));
  certificate.certify = part_of(data.certify, certificate.rows);
  const bool fp32 = !data.certify.reference.empty() || data.certify.info.precision == "fp32";
  certificate.reference = fp32 ? LossReference::fp32 : LossReference::same_precision;
  if (settled.range) certificate.range = {settled.range->first, settled.range->second};
  certificate.seed = data.seed;
  certificate.unit = unit_of(plan, data.fit);
  certificate.distinct = static_cast<int64_t>(distinct_rows(data.certify));
  certificate.tries = plan.tries_known ? plan.tries : 0;
  certificate.group_by = plan.group.by;
  for (const GroupOutcome& group : first.groups)
    certificate.groups.push_back({.name = group.name, .rows = group.rows, .losses = group.losses});
  certificate.answers = full_depth_answers(data.certify);
  return certificate;
}

OrderedJson interval_json(const std::optional<LossInterval>& interval) {
  return interval ? OrderedJson{interval->low, interval->high} : OrderedJson(nullptr);
}

}  // namespace

CertifiedUnit unit_of(const CalibrationPlan& plan, const ExitTrace& rows) {
  return plan.unit.value_or(rows.info.split == kHeldOutSplit ? CertifiedUnit::texts : CertifiedUnit::requests);
}

SplitShares shares_for(const ExitTrace& trace, const CalibrationPlan& plan, std::optional<bool> report) {
  const bool distinct = unit_of(plan, trace) == CertifiedUnit::texts;
  const size_t rows = distinct ? distinct_rows(trace) : trace.rows;
  SplitShares shares = report.value_or(rows >= kRowsToReport) ? SplitShares{} : kNoReport;
  shares.distinct = distinct;
  const double max_drop = plan.max_drops.empty() ? 0 : plan.max_drops.front();
  const bool valid = max_drop > 0 && max_drop < 1 && plan.delta > 0 && plan.delta < 1;  // else it is refused later
  if (!valid || loss_of(plan, trace) == RiskLoss::abs_diff) return shares;
  shares.max_drop = max_drop;
  shares.delta = plan.delta * budget_share(plan, max_drop) * share_of_try(1);
  return shares;
}

std::vector<FamilyTrial> try_families(const CalibrationData& data, int64_t certify_rows, const CalibrationPlan& plan) {
  Settled settled = settle(data, plan);
  LossMeter fit = settled.meter(data.fit);
  return choose_family(settled, scope_of(settled), fit, certify_rows).trials;
}

bool full_depth_passes(const CalibrationData& data, const CalibrationPlan& plan) {
  const Settled settled = settle(data, plan);
  Parts parts(settled);
  const std::vector<Candidate> full(1);
  return std::all_of(plan.max_drops.begin(), plan.max_drops.end(), [&](double max_drop) {
    return test_settings(settled.test(max_drop), full, parts).setting.has_value();
  });
}

void require_enough_rows(const CalibrationData& data, const CalibrationPlan& plan) {
  const Settled settled = settle(data, plan);
  refuse_too_few(settled, settled.sample(data.certify, data.certify_rows));
}

Calibration calibrate(const CalibrationData& data, const CalibrationPlan& plan) {
  Settled settled = settle(data, plan);
  Parts parts(settled);
  if (!plan.or_full_depth) refuse_too_few(settled, parts.sample);
  const FamilyScope scope = scope_of(settled);
  LossMeter fit = settled.meter(data.fit);
  Calibration out;
  Choice choice = plan.transfer ? points_of(*plan.transfer, fit)
                                : choose_family(settled, scope, fit, static_cast<int64_t>(data.certify.rows));
  out.trials = std::move(choice.trials);
  for (const Candidate& candidate : choice.candidates) out.sequence.push_back(candidate.policy);
  for (const double max_drop : plan.max_drops)
    out.outcomes.push_back(certify_drop(settled.test(max_drop), choice.candidates, parts, plan.or_full_depth));

  const std::vector<int>& layers = data.fit.info.layers;
  const std::vector<float> ones(layers.size(), 1.0F);
  if (plan.transfer) {
    out.entry.exits = plan.transfer->exits;
    out.entry.decision_temperature = plan.transfer->decision_temperature;
    out.entry.score_temperature = plan.transfer->score_temperature;
  } else {
    out.entry.exits = plan.exits.empty() ? layers : plan.exits;
    out.entry.decision_temperature = scope.temperature.empty() ? ones : scope.temperature;
    out.entry.score_temperature = plan.temperatures ? score_temperatures(data.fit) : ones;
  }
  for (const DropOutcome& outcome : out.outcomes) {
    out.entry.points.push_back({rule_part(outcome.policy), outcome.max_drop, outcome.certify_cost,
                                exit_rates(data.certify, outcome.policy, out.entry.exits)});
  }
  out.entry.policy = out.entry.points.front().policy;
  out.entry.certificate = certificate_of(plan, parts, out.outcomes.front());
  set_origin(out.entry, data.certify.info);
  return out;
}

OrderedJson outcome_json(const DropOutcome& outcome) {
  OrderedJson out;
  out["policy"] = str(outcome.policy);
  out["max_drop"] = outcome.max_drop;
  out["losses"] = outcome.losses;
  out["p_value"] = outcome.p_value;
  out["certify_cost_fraction"] = outcome.certify_cost;
  out["certify_risk"] = outcome.certify;
  out["report_cost_fraction"] = outcome.report_cost;
  out["report_risk"] = outcome.report;
  out["report_interval"] = interval_json(outcome.interval);
  const FrequentTexts& frequent = outcome.frequent;
  if (frequent.texts > 0)
    out["frequent"] = {{"texts", frequent.texts},
                       {"share", frequent.share},
                       {"lost", frequent.lost},
                       {"lost_share", frequent.lost_share}};
  for (const GroupOutcome& group : outcome.groups) {
    OrderedJson one{{"name", group.name}, {"rows", group.rows}, {"losses", group.losses}};
    if (outcome.interval) {
      one["report_rows"] = group.report_rows;
      one["report_risk"] = group.report;
      one["report_interval"] = interval_json(group.interval);
    }
    out["groups"].push_back(std::move(one));
  }
  return out;
}

OrderedJson trials_json(const std::vector<FamilyTrial>& trials) {
  OrderedJson out = OrderedJson::array();
  for (const FamilyTrial& trial : trials)
    out.push_back({{"family", trial.family}, {"cost_fraction", trial.cost_fraction}});
  return out;
}

}  // namespace exeunt
