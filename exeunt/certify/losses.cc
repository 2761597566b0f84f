// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/losses.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

constexpr double kCostStep = 0.005;  // settings closer than this in cost are one step of the sequence

bool calibrates(const RuleInfo& rule) {
  return !rule.candidates({.classes = 2, .exits = 4, .range = 1}).empty();
}

Rule rule_family_named(std::string_view name) {
  std::vector<std::string> known;
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (!calibrates(kRules[i])) continue;
    if (kRules[i].name == name) return Rule{static_cast<uint8_t>(i)};
    known.emplace_back(kRules[i].name);
  }
  throw Error(Code::usage, fmt::format("unknown policy family '{}'", name.substr(0, 64)), suggestion(name, known));
}

Candidate measured(PolicySpec policy, LossMeter& fit) {
  const LossMeter::Measured result = fit.measure(policy);
  const auto mean_over = [&](const std::vector<size_t>& rows) {
    const double sum = std::transform_reduce(rows.begin(), rows.end(), 0.0, std::plus<>(),
                                             [&](size_t row) { return std::abs(result.losses[row]); });
    return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  };
  return {std::move(policy), mean_over(fit.counted()) + mean_over(fit.others()), result.cost_fraction};
}

// So many of the rows: those with the largest values, of equal ones the first; in the order of rows.
template <class Value>
std::vector<size_t> best_of(std::vector<size_t> rows, int most, const Value& value) {
  const size_t best = std::min(rows.size(), static_cast<size_t>(most));
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(best), rows.end(),
                    [&](size_t a, size_t b) { return std::pair(-value(a), a) < std::pair(-value(b), b); });
  rows.resize(best);
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

ValueRange range_or_observed(const ValueRange& named, const ExitTrace& fit) {
  return named || fit.info.problem != Problem::regression ? named : observed_range(fit);
}

ValueRange observed_range(const ExitTrace& trace) {
  ValueRange range;
  const auto include = [&](double value) {
    if (std::isnan(value)) return;
    range = range ? std::pair(std::min(range->first, value), std::max(range->second, value)) : std::pair(value, value);
  };
  for (const double gold : trace.gold) include(gold);
  if (range) return range;
  for (size_t row = 0; row < trace.rows; ++row) include(trace.full_depth(row)[0]);
  return range;
}

LossMeter::LossMeter(const ExitTrace& trace, const RiskLoss& loss, const ValueRange& range)
    : trace_(trace), loss_(loss), replayer_(trace, trace.info.last_head) {
  const LossOf loss_of(loss, trace.info, range ? range->second - range->first : 0);
  const bool gold = info_of(loss).gold, questions = info_of(loss).questions;
  if (gold && !trace.labelled())
    throw Error(Code::usage, fmt::format("loss '{}' needs the gold label of every row", name_of(loss)),
                "use disagreement");
  if (loss == RiskLoss::abs_diff && !(loss_of.width > 0 && std::isfinite(loss_of.width)))
    throw Error(Code::usage, "loss 'abs_diff' needs the range of the values, which is not empty",
                "name it, as in --range 0,5");
  const auto outputs = static_cast<size_t>(trace.width);
  if (questions) group_questions();
  losses_.reserve(trace.rows * (static_cast<size_t>(trace.exits) + 1));
  for (size_t row = 0; row < trace.rows; ++row) {
    AnswerPair pair{.given = {}, .reference = trace.full_depth(row)};
    if (!questions && loss_of.counts(pair.reference)) {
      counted_.push_back(row);
    } else if (loss.max_false) {
      others_.push_back(row);
    }
    if (gold) pair.reference_right = trace.right(row, pair.reference);
    const auto lost_by = [&](std::span<const float> answer) {
      pair.given = answer;
      if (gold) pair.given_right = trace.right(row, answer);
      return loss_of(pair);
    };
    for (int exit = 0; exit < trace.exits; ++exit) losses_.push_back(lost_by(trace.at(row, exit)));
    losses_.push_back(trace.ramp.empty() ? 0 : lost_by(std::span(trace.ramp).subspan(row * outputs, outputs)));
  }
}

// Rows without a cluster are questions of their own.
void LossMeter::group_questions() {
  std::map<uint64_t, size_t> known;
  for (size_t row = 0; row < trace_.rows; ++row) {
    const auto [at, fresh] = known.try_emplace(trace_.cluster.empty() ? row : trace_.cluster[row], questions_.size());
    if (fresh) {
      questions_.emplace_back();
      counted_.push_back(row);
    }
    questions_[at->second].rows.push_back(row);
  }
  for (Question& question : questions_)
    question.best = best_of(question.rows, loss_.best, [&](size_t row) { return trace_.full_depth(row)[0]; });
}

void LossMeter::lose_by_question(std::vector<double>& values) const {
  std::vector<double> losses(values.size());
  for (const Question& question : questions_) {
    const auto best = best_of(question.rows, loss_.best, [&](size_t row) { return values[row]; });
    losses[question.rows.front()] = best == question.best ? 0 : 1;
  }
  values = std::move(losses);
}

double LossMeter::Measured::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

LossMeter::Measured LossMeter::measure(const PolicySpec& policy) {
  const Departures departures = replayer_.run(policy);
  const auto exits = static_cast<size_t>(trace_.exits);
  const auto by_ramp = [&](size_t row) { return !departures.by_ramp.empty() && departures.by_ramp[row]; };
  Measured measured;
  measured.losses.reserve(trace_.rows);
  double layers = 0;
  for (size_t row = 0; row < trace_.rows; ++row) {
    measured.losses.push_back(losses_[row * (exits + 1) + (by_ramp(row) ? exits : departures.exit[row])]);
    layers += trace_.info.layers[departures.exit[row]];
  }
  if (info_of(loss_).questions) lose_by_question(measured.losses);
  measured.cost_fraction = layers / static_cast<double>(trace_.rows) / trace_.info.layers.back();
  measured.exit = departures.exit;
  return measured;
}

std::vector<std::vector<size_t>> LossMeter::by_exit(const Measured& measured) const {
  std::vector<std::vector<size_t>> out(static_cast<size_t>(trace_.exits));
  if (info_of(loss_).questions) return out;
  for (const size_t row : counted_) out[measured.exit[row]].push_back(row);
  return out;
}

bool LossMeter::last_is_reference() const noexcept {
  return trace_.info.precision == trace_.reference_precision() && trace_.info.last_head == LastHead::final;
}

FrequentTexts frequent_texts(const ExitTrace& part, const std::vector<double>& losses,
                             const std::vector<size_t>& rows) {
  constexpr double kShare = 0.001;
  FrequentTexts out;
  if (part.row_hash.empty()) return out;
  struct Text {
    int64_t rows = 0, first = INT64_MAX;
    double loss = 0;  // of one of them
  };
  std::map<uint64_t, Text> texts;
  for (const size_t row : rows) {
    Text& text = texts[part.row_hash[row]];
    ++text.rows;
    text.first = std::min(text.first, part.index[row]);
    text.loss = losses[row];
  }
  for (const auto& [hash, text] : texts) {
    const double share = static_cast<double>(text.rows) / static_cast<double>(rows.size());
    if (text.rows < 10 || share < kShare) continue;
    ++out.texts;
    out.share += share;
    if (text.loss <= 0) continue;
    ++out.lost;
    out.lost_share += share;
    out.lost_rows.push_back(text.first);
  }
  std::sort(out.lost_rows.begin(), out.lost_rows.end());
  return out;
}

std::vector<Candidate> order_candidates(std::string_view family, const FamilyScope& scope, LossMeter& fit) {
  PolicySpec policy;
  policy.exits = scope.exits;
  policy.temperature = scope.temperature;
  std::vector<Candidate> ordered{measured(policy, fit)};  // full depth

  policy.rule = rule_family_named(family);
  const auto exits = static_cast<int>(scope.exits.empty() ? scope.sites.layers.size() : scope.exits.size());
  std::map<int, Candidate, std::greater<>> steps;  // by cost, dearest first
  for (const Params& params :
       info_of(policy.rule).candidates({scope.sites.outputs, exits, scope.range, scope.sites.problem})) {
    policy.params = params;
    Candidate candidate = measured(policy, fit);
    if (candidate.cost_fraction >= ordered.front().cost_fraction) continue;  // nothing leaves: full depth again
    const int step = static_cast<int>(std::floor(candidate.cost_fraction / kCostStep));
    const auto [place, fresh] = steps.try_emplace(step, candidate);
    if (!fresh && candidate.risk < place->second.risk) place->second = std::move(candidate);
  }
  // From the cheapest up: a setting must have less risk than every cheaper one, or what was kept there beats it.
  std::vector<Candidate> kept;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    if (kept.empty() || step->second.risk <= kept.back().risk) kept.push_back(std::move(step->second));
  ordered.insert(ordered.end(), std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return ordered;
}

std::vector<std::string> families_for(const ExitSites& sites, Families which) {
  std::vector<std::string> families;
  const ModelTraits traits{.problem = sites.problem, .classes = sites.outputs, .lte = sites.lte};
  for (const RuleInfo& rule : kRules) {
    if (!calibrates(rule) || !suits(rule, traits) ||
        (sites.problem != Problem::multi_label && rule.repeats_another(sites.outputs)))
      continue;
    if (rule.usual || which == Families::all) families.emplace_back(rule.name);
  }
  return families;
}

}  // namespace exeunt
