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
#include "exeunt/data/hold_out.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

constexpr double kLeastMaxDrop = 1e-5;  // which already takes 300,000 examples
constexpr double kFirstShare = 0.8;     // of delta, for the budget that runs where there are several

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
  bool clustered = false;  // some rows are drawn together
  bool means = false;      // and what counts is their mean
  double most = 1;         // of them
  bool by_exit = false;    // every exit keeps kExitShare times the budget

  // In expectation there is no delta to share: each try gets its share of the budget, and the sum is no larger.
  [[nodiscard]] double share_of_budget() const {
    return method == RiskMethod::crc && plan.tries > 0 ? share_of_try(plan.tries) : 1;
  }
  [[nodiscard]] RiskTest test(double max_drop) const {
    return {loss, method, max_drop * share_of_budget(), delta * budget_share(plan, max_drop)};
  }
  [[nodiscard]] LossMeter meter(const ExitTrace& part) const { return {part, loss, range}; }
  // What the test of a part needs besides the losses of its rows.
  [[nodiscard]] Sample sample(const LossMeter& meter, const ExitTrace& part, const PartRows& rows) const;
  // Of rows that chose nothing.
  [[nodiscard]] LossInterval interval(const std::vector<double>& losses, const Sample& of,
                                      const std::vector<size_t>* rows = nullptr) const {
    const bool shares = means && info_of(loss).counts && info_of(loss).least == 0;
    return loss_interval(shares ? RiskLoss::abs_diff : loss, draws_of(losses, of, rows).losses);
  }
};

// The most rows that are drawn together.
size_t largest_cluster(const CalibrationData& data) {
  size_t most = 1;
  for (const ExitTrace* part : {&data.fit, &data.certify, &data.report}) {
    std::map<uint64_t, size_t> rows;
    for (const uint64_t cluster : part->cluster) most = std::max(most, ++rows[cluster]);
  }
  return most;
}

void require_questions(const Settled& settled) {
  (void)LossOf(settled.loss, settled.data.fit.info, 0);  // what the model cannot rank, no questions help
  const std::string name = name_of(settled.loss);
  if (!settled.clustered)
    throw Error(
        Code::usage,
        fmt::format("loss '{}' is of questions with several candidates: got {} rows to choose by, no two of one "
                    "question",
                    name, settled.data.fit.rows),
        "bring pairs of a question and a candidate (--pair-column), or name the question's column: --cluster "
        "COLUMN");
  if (!settled.plan.group.by.empty())
    throw Error(Code::usage,
                fmt::format("groups by {}: got loss '{}', which is of questions, not of single rows",
                            settled.plan.group.by, name),
                "omit --group");
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
  settled.by_exit = plan.group.by == "exit";
  if (settled.by_exit && plan.method == RiskMethod::crc)
    refuse("groups by exit: method 'crc' holds in expectation over all texts; use another");
  settled.most = static_cast<double>(largest_cluster(data));
  settled.clustered = settled.most > 1;
  settled.means = settled.clustered && !info_of(settled.loss).questions;
  if (info_of(settled.loss).questions) require_questions(settled);
  const bool counts = info_of(settled.loss).counts && !settled.means;
  if (plan.method) {
    settled.methods = {*plan.method};
  } else {
    if (counts) settled.methods.push_back(RiskMethod::ltt_binomial);
    if (!counts || (info_of(settled.loss).least < 0 && plan.known.empty())) settled.methods.push_back(RiskMethod::wsr);
  }
  settled.method = settled.methods.front();
  if (settled.method == RiskMethod::ltt_binomial && !counts)
    refuse(fmt::format("method 'ltt-binomial' counts losses of 0 and 1, and '{}'{} has others; use wsr, ltt-hb or crc",
                       name_of(settled.loss), settled.means ? " over clusters" : ""));
  settled.delta = plan.tries > 0 ? plan.delta * share_of_try(plan.tries) : plan.delta;
  settled.range = range_or_observed(plan.range, data.fit);
  if (settled.loss.max_false && !(*settled.loss.max_false >= kLeastMaxDrop && *settled.loss.max_false < 1))
    refuse(fmt::format("max-false: got {}, want a share from {} to below 1", *settled.loss.max_false, kLeastMaxDrop));
  return settled;
}

std::vector<size_t> common(const std::vector<size_t>& one, const std::vector<size_t>& other) {
  std::vector<size_t> out;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(out));
  return out;
}

// All rows that the loss is about and all others, then those of each group.
Sample Settled::sample(const LossMeter& meter, const ExitTrace& part, const PartRows& rows) const {
  Sample out{.whole = !info_of(loss).conditional && !info_of(loss).questions};
  if (!out.whole) out.sets.push_back({meter.counted()});
  if (loss.max_false) out.sets.push_back({meter.others(), loss.max_false});
  for (const std::vector<size_t>& group : grouping.rows_of(part, rows)) {
    out.sets.push_back({common(group, meter.counted())});
    if (loss.max_false) out.sets.push_back({common(group, meter.others()), loss.max_false});
  }
  out.most = most;
  if (&part == &data.certify) out.known = plan.known;
  std::map<uint64_t, size_t> numbers;
  for (size_t row = 0; means && row < part.rows; ++row)
    out.cluster.push_back(numbers.try_emplace(part.cluster[row], numbers.size()).first->second);
  return out;
}

void refuse_too_few(const Settled& settled, const Sample& certify) {
  const CalibrationData& data = settled.data;
  const CalibrationPlan& plan = settled.plan;
  const std::vector<double> no_losses(data.certify.rows);
  const Weights weights = draws_of(no_losses, certify).weights;
  const std::string draws = settled.clustered ? unit_of(plan.cluster_by) : "examples";
  const auto refuse_below = [&](const std::vector<size_t>* of, const RiskTest& test, const std::string& what,
                                const std::string& where) {
    const int64_t needed = rows_without_loss(test, weights);
    const size_t rows = draws_of(no_losses, certify, of).losses.size();
    if (static_cast<int64_t>(rows) >= needed) return;
    const double total = static_cast<double>(data.fit.rows + data.certify.rows + data.report.rows);
    const double all = std::ceil(static_cast<double>(needed) * total / static_cast<double>(std::max<size_t>(rows, 1)));
    const double share = settled.share_of_budget();
    const std::string certainty = fmt::format(
        "{}{}",
        settled.method == RiskMethod::crc ? "in expectation" : fmt::format("at {:.4g} %", 100 * (1 - plan.delta)),
        plan.tries > 1 ? fmt::format(" (try {} on these texts)", plan.tries) : "");
    const std::string best = rows > 0
                                 ? fmt::format(", or allow more: {} {} certify {:.3g} % at best", rows, what,
                                               100 * least_max_drop(test, static_cast<int64_t>(rows), weights) / share)
                                 : "";
    throw Error(Code::failure,
                fmt::format("not enough data: certifying {:.4g} % {} takes {} {} without a loss, and {} has {}",
                            100 * test.max_drop / share, certainty, needed, what, where, rows),
                fmt::format("provide {} examples in total, add texts without labels (--unlabelled FILE){}", all, best));
  };
  const RiskTest test = settled.test(plan.max_drops.front());
  if (certify.whole) refuse_below(nullptr, test, draws, "the certify part");
  const size_t sides = settled.loss.max_false ? 2 : 1, first = certify.whole ? 0 : sides;
  for (size_t i = 0; i < certify.sets.size(); ++i) {
    const RowSet& set = certify.sets[i];
    const std::string texts =
        fmt::format("texts that full depth {} '{}'", set.max_drop ? "does not call" : "calls", settled.loss.label);
    refuse_below(&set.rows, test_of(test, set),
                 !info_of(settled.loss).conditional ? draws
                 : settled.clustered                ? fmt::format("{} with {}", draws, texts)
                                                    : texts,
                 i < first ? "the certify part"
                           : fmt::format("the group '{}' of it", settled.grouping.names()[(i - first) / sides]));
  }
}

// Rows at each exit that a policy may take; nothing can be lost where the answer is the reference itself.
std::vector<RowSet> exit_sets(const PolicySpec& policy, const Settled& settled, LossMeter& meter, double max_drop) {
  const std::vector<std::vector<size_t>> by_exit = meter.by_exit(meter.measure(policy));
  const std::vector<int>& layers = settled.data.fit.info.layers;
  std::vector<RowSet> out;
  for (size_t exit = 0; exit < layers.size(); ++exit) {
    const bool last = exit + 1 == layers.size();
    const std::vector<int>& used = policy.exits;
    const bool taken = policy.rule != rule_of<FullRule> &&
                       (used.empty() || std::find(used.begin(), used.end(), layers[exit]) != used.end());
    if (last ? !meter.last_is_reference() : taken)
      out.push_back({by_exit[exit], std::min(kExitShare * max_drop, 1 - 1e-9)});
  }
  return out;
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
  const Sample whole = settled.sample(fit, settled.data.fit, settled.data.fit_rows);
  FamilyTrial trial{.method = settled.method, .cost_fraction = 0};
  const std::vector<double>& max_drops = settled.plan.max_drops;
  for (const double max_drop : max_drops) {
    const auto passes = [&](const Candidate& candidate) {
      Sample sample = whole;
      if (settled.by_exit)
        for (RowSet& set : exit_sets(candidate.policy, settled, fit, max_drop)) sample.sets.push_back(std::move(set));
      return would_pass(settled.test(max_drop), fit.measure(candidate.policy).losses, certify_rows, sample);
    };
    size_t last = 0;
    if (!passes(candidates.front())) trial.cost_fraction = INFINITY;
    while (last + 1 < candidates.size() && passes(candidates[last + 1])) ++last;
    trial.cost_fraction += candidates[last].cost_fraction / static_cast<double>(max_drops.size());
    trial.expected.push_back(candidates[last].policy);
  }
  return trial;
}

// A setting with an exit that few texts take cannot be shown to keep anything there, and would end the walk.
void drop_rare_exits(const Settled& settled, std::vector<Candidate>& candidates, LossMeter& fit, int64_t certify_rows) {
  const RiskTest test = settled.test(settled.plan.max_drops.front());
  const double scale = static_cast<double>(certify_rows) / static_cast<double>(settled.data.fit.rows);
  const auto rare = [&](const Candidate& candidate) {
    const std::vector<RowSet> sets = exit_sets(candidate.policy, settled, fit, test.max_drop);
    return std::any_of(sets.begin(), sets.end(), [&](const RowSet& set) {
      return scale * static_cast<double>(set.rows.size()) < static_cast<double>(rows_without_loss(test_of(test, set)));
    });
  };
  candidates.erase(std::remove_if(candidates.begin() + 1, candidates.end(), rare), candidates.end());
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
    if (settled.by_exit) drop_rare_exits(settled, candidates, fit, certify_rows);
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

// The parts that test and report, with their losses.
struct Parts {
  explicit Parts(const Settled& s)
      : settled(s),
        data(s.data),
        certify(s.meter(data.certify)),
        report(s.meter(data.report)),
        sample(s.sample(certify, data.certify, data.certify_rows)),
        reported(s.sample(report, data.report, data.report_rows)) {}

  const Settled& settled;
  const CalibrationData& data;
  LossMeter certify, report;
  Sample sample, reported;  // of the certify part, and of the report part
};

std::vector<double> picked(const std::vector<double>& losses, const std::vector<size_t>& rows,
                           const std::vector<bool>& known = {}) {
  return draws_of(losses, {.known = known}, &rows).losses;
}

// A policy's losses on the certify and the report part, and what they are on some of their rows.
struct Results {
  const Parts& parts;
  std::vector<double> certify, report;

  [[nodiscard]] GroupOutcome on(std::string name, const std::vector<size_t>& certified,
                                const std::vector<size_t>& reported) const {
    const std::vector<double> tested = picked(certify, certified, parts.sample.known);
    GroupOutcome group{.name = std::move(name), .rows = static_cast<int64_t>(tested.size())};
    group.losses = total_of(tested);
    group.report_rows = static_cast<int64_t>(reported.size());
    group.report = mean_of(picked(report, reported));
    group.interval = parts.settled.interval(report, parts.reported, &reported);
    return group;
  }

  [[nodiscard]] std::vector<GroupOutcome> groups() const {
    const Grouping& grouping = parts.settled.grouping;
    const auto certified = grouping.rows_of(parts.data.certify, parts.data.certify_rows);
    const auto reported = grouping.rows_of(parts.data.report, parts.data.report_rows);
    std::vector<GroupOutcome> out;
    for (size_t i = 0; i < certified.size(); ++i)
      out.push_back(on(grouping.names()[i], common(certified[i], parts.certify.counted()),
                       common(reported[i], parts.report.counted())));
    return out;
  }
};

SequenceResult test_settings(const RiskTest& test, const std::vector<Candidate>& candidates, Parts& parts) {
  const auto losses = [&](size_t i) { return parts.certify.measure(candidates[i].policy).losses; };
  Sample sample = parts.sample;
  if (parts.settled.by_exit)
    sample.sets_of = [&](size_t i) {
      return exit_sets(candidates[i].policy, parts.settled, parts.certify, test.max_drop);
    };
  return certify_sequence(test, candidates.size(), losses, sample);
}

DropOutcome certify_drop(double max_drop, const std::vector<Candidate>& candidates, Parts& parts, bool or_full_depth) {
  const RiskTest test = parts.settled.test(max_drop);
  SequenceResult verdict = test_settings(test, candidates, parts);
  if (!verdict.setting && or_full_depth) verdict = {.setting = 0, .p_value = 0};
  if (!verdict.setting) {
    const double full =
        mean_of(picked(parts.certify.measure(candidates.front().policy).losses, parts.certify.counted()));
    throw Error(
        Code::failure,
        fmt::format("nothing stays within {:.4g} %: {} differs from the reference by {:.2f} % even at full depth",
                    100 * max_drop, parts.data.certify.info.precision, 100 * full),
        "allow more with --max-drop, keep more matrices in a higher precision, or use another precision");
  }
  DropOutcome outcome;
  outcome.max_drop = max_drop;
  outcome.policy = candidates[*verdict.setting].policy;
  outcome.p_value = verdict.p_value;
  LossMeter::Measured tested = parts.certify.measure(outcome.policy);
  const std::vector<size_t>&certified = parts.certify.counted(), &reported = parts.report.counted();
  const std::vector<double> counted = picked(tested.losses, certified, parts.sample.known);
  outcome.rows = static_cast<int64_t>(counted.size());
  outcome.report_rows = static_cast<int64_t>(reported.size());
  outcome.losses = test.method == RiskMethod::ltt_binomial ? lost_sum(counted) : total_of(counted);
  outcome.certify_cost = outcome.report_cost = tested.cost_fraction;
  outcome.certify = outcome.report = mean_of(counted);
  if (!info_of(test.loss).questions) outcome.frequent = frequent_texts(parts.data.certify, tested.losses, certified);
  const auto certified_at = parts.certify.by_exit(tested);
  std::vector<std::vector<size_t>> reported_at(certified_at.size());
  Results results{parts, std::move(tested.losses), {}};
  if (parts.data.report.rows > 0) {
    LossMeter::Measured seen = parts.report.measure(outcome.policy);
    outcome.report_cost = seen.cost_fraction;
    outcome.report = mean_of(picked(seen.losses, reported));
    outcome.interval = parts.settled.interval(seen.losses, parts.reported, &reported);
    reported_at = parts.report.by_exit(seen);
    results.report = std::move(seen.losses);
  }
  outcome.groups = results.groups();
  for (size_t exit = 0; exit < certified_at.size(); ++exit) {
    if (certified_at[exit].empty() && reported_at[exit].empty()) continue;
    outcome.exits.push_back(
        results.on(fmt::format("{}", parts.data.certify.info.layers[exit]), certified_at[exit], reported_at[exit]));
    if (parts.data.report.rows == 0)
      outcome.exits.back().interval = parts.settled.interval(results.certify, parts.sample, &certified_at[exit]);
  }
  if (test.loss.max_false) outcome.others = results.on("others", parts.certify.others(), parts.report.others());
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
  certificate.rows = first.rows;
  certificate.losses = first.losses;
  certificate.budgets = static_cast<int>(plan.max_drops.size());
  certificate.fit = part_of(data.fit);
  certificate.certify = part_of(data.certify);
  const bool fp32 = !data.certify.reference.empty() || data.certify.info.precision == "fp32";
  certificate.reference = fp32 ? LossReference::fp32 : LossReference::same_precision;
  if (settled.range) certificate.range = {settled.range->first, settled.range->second};
  certificate.seed = data.seed;
  certificate.unit = certified_unit(plan, data.fit);
  certificate.distinct = static_cast<int64_t>(distinct_rows(data.certify));
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
  for (const GroupOutcome& exit : first.exits)
    certificate.exits.push_back({.name = exit.name, .rows = exit.rows, .losses = exit.losses});
  certificate.answers = full_depth_answers(data.certify);
  return certificate;
}

}  // namespace

double budget_share(const CalibrationPlan& plan, double max_drop) {
  if (plan.max_drops.size() == 1) return 1;
  if (max_drop == plan.max_drops.front()) return kFirstShare;
  return (1 - kFirstShare) / static_cast<double>(plan.max_drops.size() - 1);
}

CertifiedUnit certified_unit(const CalibrationPlan& plan, const ExitTrace& rows) {
  const bool texts = rows.info.split == kHeldOutSplit || rows.info.precision == kExternalPrecision;
  return plan.unit.value_or(texts ? CertifiedUnit::texts : CertifiedUnit::requests);
}

SplitShares shares_for(const ExitTrace& trace, const CalibrationPlan& plan, std::optional<bool> report) {
  const bool distinct = certified_unit(plan, trace) == CertifiedUnit::texts;
  const RiskLoss loss = loss_of(plan, trace);
  const bool questions = info_of(loss).questions && !trace.cluster.empty();
  const size_t rows = questions  ? std::set(trace.cluster.begin(), trace.cluster.end()).size()
                      : distinct ? distinct_rows(trace)
                                 : trace.rows;
  SplitShares shares = report.value_or(rows >= kRowsToReport) ? SplitShares{} : kNoReport;
  shares.distinct = distinct && !questions;  // a question keeps all of its candidates
  const double max_drop = plan.max_drops.empty() ? 0 : plan.max_drops.front();
  const bool valid = max_drop > 0 && max_drop < 1 && plan.delta > 0 && plan.delta < 1;  // else it is refused later
  if (!valid || !info_of(loss).counts || info_of(loss).conditional) return shares;
  shares.questions = questions;
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

bool counts_losses(const CalibrationData& data, const CalibrationPlan& plan) {
  const Settled settled = settle(data, plan);
  return !settled.clustered && settled.method == RiskMethod::ltt_binomial;
}

void require_enough_rows(const CalibrationData& data, const CalibrationPlan& plan) {
  const Settled settled = settle(data, plan);
  refuse_too_few(settled, settled.sample(settled.meter(data.certify), data.certify, data.certify_rows));
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
    // A decision is about scores as they are.
    const bool scaled = plan.temperatures && settled.loss.kind != RiskLoss::decision;
    out.entry.score_temperature = scaled ? score_temperatures(data.fit) : ones;
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

}  // namespace exeunt
