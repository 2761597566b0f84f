// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/calibrate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"
#include "exeunt/exits/candidates.h"
#include "exeunt/exits/certify.h"
#include "exeunt/exits/losses.h"
#include "exeunt/exits/replay.h"
#include "exeunt/exits/temperature.h"

namespace exeunt {
namespace {

constexpr double kLeastBudget = 1e-5;  // which already takes 300,000 examples

// The plan with its open questions answered by the model.
struct Settled {
  RiskLoss loss;
  RiskMethod method;
  double delta;  // of one budget's test
  std::optional<std::pair<double, double>> range;
};

Settled settle(const CalibrationData& data, const CalibrationPlan& plan) {
  const auto refuse = [](const std::string& why) { throw Error(Code::usage, why); };
  if (plan.budgets.empty()) refuse("no budget: say how much may be lost, as in --max-drop 1%");
  for (size_t i = 0; i < plan.budgets.size(); ++i) {
    if (!(plan.budgets[i] >= kLeastBudget && plan.budgets[i] < 1))
      refuse(fmt::format("budget: got {}, want a share from {} to below 1", plan.budgets[i], kLeastBudget));
    if (i > 0 && plan.budgets[i] <= plan.budgets[i - 1]) refuse("budgets: want increasing values");
  }
  if (!(plan.delta > 0 && plan.delta < 1))
    refuse(fmt::format("confidence: got {}, want a share above 0 and below 1", 1 - plan.delta));
  Settled settled;
  settled.loss = plan.loss.value_or(data.fit.info.regression ? RiskLoss::abs_diff : RiskLoss::disagreement);
  const bool zero_one = settled.loss == RiskLoss::disagreement;
  settled.method = plan.method.value_or(zero_one ? RiskMethod::ltt_binomial : RiskMethod::wsr);
  if (settled.method == RiskMethod::ltt_binomial && !zero_one)
    refuse(fmt::format("method 'ltt-binomial' counts losses of 0 and 1, and '{}' has others; use wsr, ltt-hb or crc",
                       name_of(settled.loss)));
  settled.delta = plan.delta / static_cast<double>(plan.budgets.size());
  settled.range = plan.range;
  if (data.fit.info.regression && !settled.range) settled.range = gold_range(data.fit);
  return settled;
}

void refuse_too_few(const CalibrationData& data, double epsilon, const Settled& settled) {
  const RiskTest test{settled.loss, settled.method, epsilon, settled.delta};
  const auto rows = static_cast<int64_t>(data.certify.rows);
  const int64_t needed = rows_without_loss(test);
  if (rows >= needed) return;
  const double total = static_cast<double>(data.fit.rows + data.certify.rows + data.report.rows);
  const auto all = static_cast<int64_t>(std::ceil(static_cast<double>(needed) * total / static_cast<double>(rows)));
  const std::string certainty =
      settled.method == RiskMethod::crc ? "in expectation" : fmt::format("at {:.4g} %", 100 * (1 - settled.delta));
  throw Error(Code::failure,
              fmt::format("not enough data: certifying {:.4g} % {} takes {} examples without a loss, and the certify "
                          "part has {}",
                          100 * epsilon, certainty, needed, rows),
              fmt::format("provide {} examples in total, add texts without labels (--unlabelled FILE), or allow more: "
                          "{} examples certify {:.3g} % at best",
                          all, rows, 100 * least_budget(test, rows)));
}

struct Choice {
  std::vector<Candidate> candidates;
  std::vector<FamilyTrial> trials;
};

// The family that should be cheapest once certified, judged on the fit part as if its losses were those to come.
Choice choose_family(const CalibrationPlan& plan, const Settled& settled, const FamilyScope& scope, LossMeter& fit,
                     int64_t certify_rows) {
  const std::vector<std::string> families =
      plan.families.empty() ? families_for(scope.sites, Families::usual) : plan.families;
  Choice choice;
  for (const std::string& family : families) {
    std::vector<Candidate> candidates = order_candidates(family, scope, fit);
    double cost = 0;
    for (const double epsilon : plan.budgets) {
      const RiskTest test{settled.loss, settled.method, epsilon, settled.delta};
      const auto passes = [&](const PolicySpec& policy) {
        return would_pass(test, fit.measure(policy).losses, certify_rows);
      };
      size_t last = 0;
      while (last + 1 < candidates.size() && passes(candidates[last + 1].policy)) ++last;
      cost += candidates[last].cost_fraction / static_cast<double>(plan.budgets.size());
    }
    if (choice.trials.empty() || cost < choice.trials.front().cost_fraction) {
      choice.candidates = std::move(candidates);
      choice.trials.insert(choice.trials.begin(), {family, cost});
    } else {
      choice.trials.push_back({family, cost});
    }
  }
  return choice;
}

BudgetOutcome certify_budget(const RiskTest& test, const std::vector<Candidate>& candidates, LossMeter& certify,
                             LossMeter& report) {
  const SequenceResult verdict =
      certify_sequence(test, candidates.size(), [&](size_t i) { return certify.measure(candidates[i].policy).losses; });
  BudgetOutcome outcome;
  outcome.epsilon = test.epsilon;
  outcome.policy = candidates[verdict.setting].policy;
  outcome.losses = verdict.losses;
  outcome.p_value = verdict.p_value;
  outcome.upper_bound = verdict.upper_bound;
  outcome.certify_cost = certify.measure(outcome.policy).cost_fraction;
  const LossMeter::Measured seen = report.measure(outcome.policy);
  outcome.report_cost = seen.cost_fraction;
  outcome.report_risk =
      std::accumulate(seen.losses.begin(), seen.losses.end(), 0.0) / static_cast<double>(seen.losses.size());
  return outcome;
}

// The origin of the rows; an imported trace that does not name one is its own origin.
DataPart part_of(const ExitTrace& trace) {
  const auto bytes = std::as_bytes(std::span(trace.logits));
  return {trace.info.data.empty() ? sha256_hex(bytes) : trace.info.data, static_cast<int64_t>(trace.rows),
          rows_sha256(trace)};
}

// Rule and parameters alone, as the text form has them.
PolicySpec rule_part(PolicySpec policy) {
  policy.exits.clear();
  policy.temperature.clear();
  policy.score_temperature.clear();
  return policy;
}

// Fraction of the rows that exit at each of `exits`, which are layers; the engine plans with it.
std::vector<float> exit_rates(const ExitTrace& trace, const PolicySpec& policy, const std::vector<int>& exits) {
  std::vector<int64_t> left(exits.size(), 0);
  for (const uint8_t site : replay(trace, policy).exit) {
    const int layer = trace.info.layers[site];
    ++left[static_cast<size_t>(std::find(exits.begin(), exits.end(), layer) - exits.begin())];
  }
  std::vector<float> rates;
  for (const int64_t rows : left) rates.push_back(static_cast<float>(rows) / static_cast<float>(trace.rows));
  return rates;
}

}  // namespace

CalibrationData split_for_calibration(const ExitTrace& trace, uint64_t seed, SplitShares shares) {
  check(shares.fit > 0 && shares.certify > 0 && shares.fit + shares.certify < 1, "three shares make one");
  if (trace.rows < 3)
    throw Error(Code::failure, fmt::format("not enough data: got {} examples, want at least 3", trace.rows));
  std::vector<size_t> rows(trace.rows);
  std::iota(rows.begin(), rows.end(), size_t{0});
  // Fisher-Yates by hand: std::shuffle may differ between libraries, and a split must not.
  std::mt19937_64 random(seed);
  for (size_t i = rows.size() - 1; i > 0; --i) std::swap(rows[i], rows[random() % (i + 1)]);
  const auto share = [&](double part) {
    return std::max<size_t>(1, static_cast<size_t>(part * static_cast<double>(trace.rows)));
  };
  const size_t fit = share(shares.fit), certify = std::min(share(shares.certify), trace.rows - fit - 1);
  const std::span<const size_t> all(rows);
  return {select_rows(trace, all.first(fit)), select_rows(trace, all.subspan(fit, certify)),
          select_rows(trace, all.subspan(fit + certify))};
}

Calibration calibrate(const CalibrationData& data, const CalibrationPlan& plan) {
  const Settled settled = settle(data, plan);
  refuse_too_few(data, plan.budgets.front(), settled);
  FamilyScope scope{data.fit.sites(), plan.exits, {}, 0};
  if (settled.range) scope.range = static_cast<float>(settled.range->second - settled.range->first);
  if (plan.temperatures) scope.temperature = fit_temperatures(data.fit);

  LossMeter fit(data.fit, settled.loss, settled.range);
  LossMeter certify(data.certify, settled.loss, settled.range);
  LossMeter report(data.report, settled.loss, settled.range);
  Calibration out;
  Choice choice = choose_family(plan, settled, scope, fit, static_cast<int64_t>(data.certify.rows));
  out.trials = std::move(choice.trials);
  for (const Candidate& candidate : choice.candidates) out.sequence.push_back(candidate.policy);
  for (const double epsilon : plan.budgets) {
    const RiskTest test{settled.loss, settled.method, epsilon, settled.delta};
    out.outcomes.push_back(certify_budget(test, choice.candidates, certify, report));
  }

  const std::vector<int>& layers = data.fit.info.layers;
  out.entry.exits = plan.exits.empty() ? layers : plan.exits;
  const std::vector<float> ones(layers.size(), 1.0F);
  out.entry.decision_temperature = scope.temperature.empty() ? ones : scope.temperature;
  out.entry.score_temperature = out.entry.decision_temperature;
  for (const BudgetOutcome& outcome : out.outcomes) {
    out.entry.points.push_back({rule_part(outcome.policy), outcome.epsilon, outcome.certify_cost,
                                exit_rates(data.certify, outcome.policy, out.entry.exits)});
  }
  out.entry.policy = out.entry.points.front().policy;
  out.entry.certificate = Certificate{.loss = settled.loss,
                                      .method = settled.method,
                                      .epsilon = plan.budgets.front(),
                                      .delta = plan.delta,
                                      .rows = static_cast<int64_t>(data.certify.rows),
                                      .losses = out.outcomes.front().losses,
                                      .budgets = static_cast<int>(plan.budgets.size()),
                                      .families = 1,
                                      .fit = part_of(data.fit),
                                      .certify = part_of(data.certify),
                                      .tool = {},
                                      .created = {},
                                      .tokenizer = {}};
  set_origin(out.entry, data.certify.info);
  return out;
}

}  // namespace exeunt
