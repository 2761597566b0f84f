// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/candidates.h"

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

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Candidate measured(PolicySpec policy, LossMeter& fit) {
  const LossMeter::Measured result = fit.measure(policy);
  return {std::move(policy), mean_of(result.losses), result.cost_fraction};
}

}  // namespace

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
