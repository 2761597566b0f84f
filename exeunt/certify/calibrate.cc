// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/calibrate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"
#include "exeunt/certify/shift.h"
#include "exeunt/certify/temperature.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
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
  bool requests = false;   // repeats count
  bool clustered = false;  // some rows are drawn together
  double most = 1;         // that one draw weighs

  // In expectation there is no delta to share: each try gets its share of the budget, and the sum is no larger.
  [[nodiscard]] RiskTest test(double max_drop) const {
    const bool mean = method == RiskMethod::crc && plan.tries > 0;
    return {loss, method, mean ? max_drop * share_of_try(plan.tries) : max_drop, delta * budget_share(plan, max_drop)};
  }
  [[nodiscard]] LossMeter meter(const ExitTrace& part) const { return {part, loss, range}; }
  // What the test of a part needs besides the losses of its rows.
  [[nodiscard]] Sample sample(const ExitTrace& part, const PartRows& rows) const;
  // Of rows that chose nothing.
  [[nodiscard]] LossInterval interval(const std::vector<double>& losses, const Sample& of,
                                      const std::vector<size_t>* rows = nullptr) const {
    const bool means = clustered && loss == RiskLoss::disagreement;
    return loss_interval(means ? RiskLoss::abs_diff : loss, draws_of(losses, of, rows).losses);
  }
};

// The most that one draw weighs: rows of a cluster together, each as often as it is repeated, if that counts.
double most_of_a_draw(const CalibrationData& data, bool clusters, bool repeats) {
  double most = 1;
  const auto look = [&](const ExitTrace& part, const PartRows& rows) {
    std::map<uint64_t, double> weights;
    for (size_t row = 0; row < part.rows; ++row) {
      double& weight = weights[clusters && !part.cluster.empty() ? part.cluster[row] : row];
      weight += repeats && !rows.repeats.empty() ? rows.repeats[row] : 1;
      most = std::max(most, weight);
    }
  };
  look(data.fit, data.fit_rows);
  look(data.certify, data.certify_rows);
  look(data.report, data.report_rows);
  return most;
}

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
  settled.requests = plan.unit == CertifiedUnit::requests && most_of_a_draw(data, false, true) > 1;
  settled.clustered = most_of_a_draw(data, true, false) > 1;
  settled.most = most_of_a_draw(data, settled.clustered, settled.requests);
  const bool counts = settled.loss != RiskLoss::abs_diff && settled.most == 1;
  if (plan.method) {
    settled.methods = {*plan.method};
  } else {
    if (counts) settled.methods.push_back(RiskMethod::ltt_binomial);
    if (!counts || settled.loss == RiskLoss::zero_one_drop) settled.methods.push_back(RiskMethod::wsr);
  }
  settled.method = settled.methods.front();
  if (settled.method == RiskMethod::ltt_binomial && !counts)
    refuse(fmt::format("method 'ltt-binomial' counts losses of 0 and 1, and '{}'{} has others; use wsr, ltt-hb or crc",
                       name_of(settled.loss),
                       settled.clustered  ? " over clusters"
                       : settled.requests ? " over repeated requests"
                                          : ""));
  settled.delta = plan.tries > 0 ? plan.delta * share_of_try(plan.tries) : plan.delta;
  settled.range = range_or_observed(plan.range, data.fit);
  return settled;
}

Sample Settled::sample(const ExitTrace& part, const PartRows& rows) const {
  Sample out{.groups = grouping.rows_of(part, rows)};
  out.weights.most = most;
  if (requests) out.weights.of.assign(rows.repeats.begin(), rows.repeats.end());
  std::map<uint64_t, size_t> numbers;
  for (size_t row = 0; clustered && row < part.rows; ++row)
    out.cluster.push_back(numbers.try_emplace(part.cluster[row], numbers.size()).first->second);
  return out;
}

void refuse_too_few(const Settled& settled, const Sample& certify) {
  const CalibrationData& data = settled.data;
  const CalibrationPlan& plan = settled.plan;
  const RiskTest test = settled.test(plan.max_drops.front());
  const std::vector<double> no_losses(data.certify.rows);
  const Weights weights = draws_of(no_losses, certify).weights;
  const int64_t needed = rows_without_loss(test, weights);
  const std::string draws = settled.clustered ? unit_of(plan.cluster_by) : "examples";
  const auto refuse_below = [&](const std::vector<size_t>* group, const std::string& where) {
    const size_t rows = draws_of(no_losses, certify, group).losses.size();
    if (static_cast<int64_t>(rows) >= needed) return;
    const double total = static_cast<double>(data.fit.rows + data.certify.rows + data.report.rows);
    const double all = std::ceil(static_cast<double>(needed) * total / static_cast<double>(std::max<size_t>(rows, 1)));
    const std::string certainty = fmt::format(
        "{}{}",
        settled.method == RiskMethod::crc ? "in expectation" : fmt::format("at {:.4g} %", 100 * (1 - plan.delta)),
        plan.tries > 1 ? fmt::format(" (try {} on these texts)", plan.tries) : "");
    const std::string best = rows > 0 ? fmt::format(", or allow more: {} {} certify {:.3g} % at best", rows, draws,
                                                    100 * least_max_drop(test, static_cast<int64_t>(rows), weights) *
                                                        plan.max_drops.front() / test.max_drop)
                                      : "";
    throw Error(Code::failure,
                fmt::format("not enough data: certifying {:.4g} % {} takes {} {} without a loss, and {} has {}",
                            100 * plan.max_drops.front(), certainty, needed, draws, where, rows),
                fmt::format("provide {} examples in total, add texts without labels (--unlabelled FILE){}", all, best));
  };
  refuse_below(nullptr, "the certify part");
  for (size_t i = 0; i < certify.groups.size(); ++i)
    refuse_below(&certify.groups[i], fmt::format("the group '{}' of it", settled.grouping.names()[i]));
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

// Losses of some rows of a part, counted by texts and by requests.
struct Tally {
  double texts = 0, requests = 0, lost_texts = 0, lost_requests = 0;

  [[nodiscard]] Rates rates() const {
    return texts > 0 ? Rates{lost_texts / texts, lost_requests / requests} : Rates{};
  }
  [[nodiscard]] double lost(bool by_requests) const { return by_requests ? lost_requests : lost_texts; }
};

Tally tally(const std::vector<double>& losses, const PartRows& rows, const std::vector<size_t>& picked) {
  Tally out;
  for (const size_t row : picked) {
    const double weight = rows.repeats.empty() ? 1 : rows.repeats[row];
    out.texts += 1;
    out.requests += weight;
    out.lost_texts += losses[row];
    out.lost_requests += weight * losses[row];
  }
  return out;
}

Tally tally(const std::vector<double>& losses, const PartRows& rows) {
  std::vector<size_t> all(losses.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return tally(losses, rows, all);
}

int64_t count_of(const PartRows& rows, size_t texts, bool requests) {
  return requests ? std::accumulate(rows.repeats.begin(), rows.repeats.end(), int64_t{0}) : static_cast<int64_t>(texts);
}

// The parts that test and report, with their losses.
struct Parts {
  explicit Parts(const Settled& s)
      : settled(s),
        data(s.data),
        sample(s.sample(data.certify, data.certify_rows)),
        reported(s.sample(data.report, data.report_rows)),
        certify(s.meter(data.certify)),
        report(s.meter(data.report)) {}

  const Settled& settled;
  const CalibrationData& data;
  Sample sample, reported;  // of the certify part, and of the report part
  LossMeter certify, report;
};

std::vector<GroupOutcome> group_outcomes(const Parts& parts, const std::vector<double>& certify,
                                         const std::vector<double>& report) {
  std::vector<GroupOutcome> out;
  const auto& reported = parts.reported.groups;
  for (size_t i = 0; i < parts.sample.groups.size(); ++i) {
    const std::vector<size_t>& rows = parts.sample.groups[i];
    GroupOutcome group{.name = parts.settled.grouping.names()[i], .rows = static_cast<int64_t>(rows.size())};
    group.losses = tally(certify, parts.data.certify_rows, rows).lost(parts.settled.requests);
    group.report_rows = static_cast<int64_t>(reported[i].size());
    group.report = tally(report, parts.data.report_rows, reported[i]).rates();
    group.interval = parts.settled.interval(report, parts.reported, &reported[i]);
    out.push_back(std::move(group));
  }
  return out;
}

SequenceResult test_settings(const RiskTest& test, const std::vector<Candidate>& candidates, Parts& parts) {
  const auto losses = [&](size_t i) { return parts.certify.measure(candidates[i].policy).losses; };
  return certify_sequence(test, candidates.size(), losses, parts.sample);
}

DropOutcome certify_drop(double max_drop, const std::vector<Candidate>& candidates, Parts& parts, bool or_full_depth) {
  const RiskTest test = parts.settled.test(max_drop);
  SequenceResult verdict = test_settings(test, candidates, parts);
  if (!verdict.setting && or_full_depth) verdict = {.setting = 0, .p_value = 0};
  if (!verdict.setting) {
    const Rates full = tally(parts.certify.measure(candidates.front().policy).losses, parts.data.certify_rows).rates();
    throw Error(
        Code::failure,
        fmt::format("nothing stays within {:.4g} %: {} differs from the reference by {:.2f} % even at full depth",
                    100 * max_drop, parts.data.certify.info.precision, 100 * full.texts),
        "allow more with --max-drop, keep more matrices in a higher precision, or use another precision");
  }
  DropOutcome outcome;
  outcome.max_drop = max_drop;
  outcome.policy = candidates[*verdict.setting].policy;
  outcome.p_value = verdict.p_value;
  const LossMeter::Measured tested = parts.certify.measure(outcome.policy);
  const Tally counted = tally(tested.losses, parts.data.certify_rows);
  outcome.losses = counted.lost(parts.settled.requests);
  if (test.method == RiskMethod::ltt_binomial) outcome.losses = lost_sum(tested.losses);
  outcome.certify_cost = outcome.report_cost = tested.cost_fraction;
  outcome.certify = outcome.report = counted.rates();
  std::vector<double> fresh;
  if (parts.data.report.rows > 0) {
    LossMeter::Measured seen = parts.report.measure(outcome.policy);
    outcome.report_cost = seen.cost_fraction;
    outcome.report = tally(seen.losses, parts.data.report_rows).rates();
    outcome.interval = parts.settled.interval(seen.losses, parts.reported);
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
  certificate.rows = count_of(data.certify_rows, data.certify.rows, settled.requests);
  certificate.losses = first.losses;
  certificate.budgets = static_cast<int>(plan.max_drops.size());
  certificate.fit = part_of(data.fit, count_of(data.fit_rows, data.fit.rows, settled.requests));
  certificate.certify = part_of(data.certify, certificate.rows);
  const bool fp32 = !data.certify.reference.empty() || data.certify.info.precision == "fp32";
  certificate.reference = fp32 ? LossReference::fp32 : LossReference::same_precision;
  if (settled.range) certificate.range = {settled.range->first, settled.range->second};
  certificate.seed = data.seed;
  certificate.unit = plan.unit;
  certificate.distinct = static_cast<int64_t>(data.certify.rows);
  if (settled.clustered) {
    certificate.clusters =
        static_cast<int64_t>(std::set(data.certify.cluster.begin(), data.certify.cluster.end()).size());
    certificate.cluster_by = plan.cluster_by;
  }
  certificate.tries = plan.tries_known ? plan.tries : 0;
  certificate.ledger = plan.ledger;
  certificate.group_by = plan.group.by;
  for (const GroupOutcome& group : first.groups)
    certificate.groups.push_back({.name = group.name, .rows = group.rows, .losses = group.losses});
  certificate.answers = full_depth_answers(data.certify);
  return certificate;
}

OrderedJson rates_json(const Rates& rates) {
  return {{"texts", rates.texts}, {"requests", rates.requests}};
}

OrderedJson interval_json(const std::optional<LossInterval>& interval) {
  return interval ? OrderedJson{interval->low, interval->high} : OrderedJson(nullptr);
}

}  // namespace

SplitShares shares_for(const ExitTrace& trace, const CalibrationPlan& plan, std::optional<bool> report) {
  SplitShares shares = report.value_or(distinct_rows(trace) >= kRowsToReport) ? SplitShares{} : kNoReport;
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
    out.outcomes.push_back(certify_drop(max_drop, choice.candidates, parts, plan.or_full_depth));

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
  out["certify_risk"] = rates_json(outcome.certify);
  out["report_cost_fraction"] = outcome.report_cost;
  out["report_risk"] = rates_json(outcome.report);
  out["report_interval"] = interval_json(outcome.interval);
  for (const GroupOutcome& group : outcome.groups) {
    OrderedJson one{{"name", group.name}, {"rows", group.rows}, {"losses", group.losses}};
    if (outcome.interval) {
      one["report_rows"] = group.report_rows;
      one["report_risk"] = rates_json(group.report);
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
