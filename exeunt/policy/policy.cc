// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

[[noreturn]] void refuse(const PolicySpec& spec, std::string_view why, std::string hint = {}) {
  throw Error(Code::usage, fmt::format("policy '{}': {}", str(spec), why), std::move(hint));
}

void check_sites(const ExitSites& sites) {
  check(!sites.layers.empty() && sites.layers.size() <= kMaxExits, "a model with exits has 1 to kMaxExits of them");
  check(std::is_sorted(sites.layers.begin(), sites.layers.end(), std::less_equal<>()), "exits rise strictly");
  check(sites.outputs >= 1 &&
            (sites.problem == Problem::multi_label || (sites.outputs == 1) == (sites.problem == Problem::regression)),
        "one output is a regression, more are classes");
}

int site_of(const ExitSites& sites, int layer) {
  const auto found = std::find(sites.layers.begin(), sites.layers.end(), layer);
  return found == sites.layers.end() ? -1 : static_cast<int>(found - sites.layers.begin());
}

int require_site(const PolicySpec& spec, const ExitSites& sites, int layer) {
  const int site = site_of(sites, layer);
  if (site < 0) {
    refuse(spec, fmt::format("got an exit after layer {}, and the model has none there", layer),
           fmt::format("its exits: {}", fmt::join(sites.layers, ", ")));
  }
  return site;
}

// The model's exits that this policy looks at, in order. The one that answers at the latest comes last.
std::vector<int> evaluated_sites(const PolicySpec& spec, const ExitSites& sites) {
  std::vector<int> evaluated;
  for (const int layer : spec.exits) {
    const int site = require_site(spec, sites, layer);
    if (!evaluated.empty() && site <= evaluated.back())
      refuse(spec, fmt::format("got exits {}, want them in increasing order", fmt::join(spec.exits, ", ")));
    evaluated.push_back(site);
  }
  const int last = static_cast<int>(sites.layers.size()) - 1;
  if (!evaluated.empty() && evaluated.back() != last) {
    refuse(spec, fmt::format("got exits {}, want the last one ({}) among them", fmt::join(spec.exits, ", "),
                             sites.layers.back()));
  }
  const int sole = info_of(spec.rule).sole_layer(spec.params.data());
  if (sole == kLastExit) return {last};
  if (sole != kEveryExit) return {require_site(spec, sites, sole)};
  if (evaluated.empty())
    for (int site = 0; site <= last; ++site) evaluated.push_back(site);
  return evaluated;
}

void check_lists(const PolicySpec& spec, const ExitSites& sites, size_t evaluated) {
  if (!spec.per_exit.empty() && spec.per_exit.size() != evaluated) {
    refuse(spec, fmt::format("got {} per-exit values, want {}: one for each evaluated exit, the last included",
                             spec.per_exit.size(), evaluated));
  }
  for (const std::vector<float>* temperature : {&spec.temperature, &spec.score_temperature}) {
    if (!temperature->empty() && temperature->size() != sites.layers.size()) {
      refuse(spec, fmt::format("got {} temperatures, want {}: one for each exit of the model", temperature->size(),
                               sites.layers.size()));
    }
    for (const float t : *temperature)
      if (!(t > 0) || std::isinf(t)) refuse(spec, fmt::format("got temperature {}, want a finite number above 0", t));
  }
}

void check_range(const PolicySpec& spec, const ParamInfo& param, float value) {
  if (param.keyed && value == param.absent) return;
  const bool whole = param.kind == ParamKind::number || value == std::floor(value);
  const float high = param.kind == ParamKind::word ? static_cast<float>(param.words.size() - 1) : param.high;
  if (whole && value >= param.low && value <= high) return;
  refuse(spec, fmt::format("{}: got {}, want {} from {} to {}", param.name, value,
                           param.kind == ParamKind::number ? "a number" : "a whole number", param.low, high));
}

// Names of the rules that suit a model.
std::vector<std::string_view> rules_for(const ModelTraits& traits) {
  std::vector<std::string_view> names;
  for (const RuleInfo& rule : kRules)
    if (suits(rule, traits)) names.push_back(rule.name);
  return names;
}

}  // namespace

void check_spec(const PolicySpec& spec) {
  const RuleInfo& info = info_of(spec.rule);
  const bool thresholds = info.per_exit == PerExit::threshold && !spec.per_exit.empty();
  for (size_t i = 0; i < info.params.size(); ++i)
    if (i > 0 || !thresholds) check_range(spec, info.params[i], spec.params[i]);
  if (info.per_exit == PerExit::none && !spec.per_exit.empty()) refuse(spec, "takes no per-exit values");
  for (const float value : spec.per_exit) check_range(spec, thresholds ? info.params[0] : kWeightParam, value);
  if (const auto why = info.conflict(spec.params.data()); !why.empty()) refuse(spec, why);
}

std::string never_early(const PolicySpec& spec, size_t model_exits) {
  const RuleInfo& info = info_of(spec.rule);
  const size_t exits = spec.exits.empty() ? model_exits : spec.exits.size();
  const int first = info.first_exit(spec.params.data());
  if (info.sole_layer(spec.params.data()) != kEveryExit || static_cast<size_t>(first) + 1 < exits) return {};
  return fmt::format("policy {}: no text can leave early: that takes more than {} exits, and {} are evaluated",
                     str(spec), first + 1, exits);
}

int rule_state(const RuleInfo& rule, const float* params, int exits) {
  const int floats = rule.state_floats(params, exits);
  check(floats >= 0 && floats <= max_rule_state(exits), "a rule's state is at most max_rule_state()");
  return floats;
}

Policy bind(const PolicySpec& spec, const ExitSites& sites) {
  check_sites(sites);
  check_spec(spec);
  const RuleInfo& info = info_of(spec.rule);
  const ModelTraits traits{sites.problem, sites.outputs, sites.lte};
  if (const auto why = info.misfit(spec.params.data(), traits); !why.empty()) {
    refuse(spec, fmt::format("does not fit this model: {}", why),
           sites.problem == Problem::regression
               ? fmt::format("a regression leaves by one of {}", fmt::join(rules_for(traits), ", "))
               : "");
  }
  const std::vector<int> evaluated = evaluated_sites(spec, sites);
  check_lists(spec, sites, evaluated.size());

  Policy policy;
  policy.rule = spec.rule;
  policy.count = static_cast<int>(evaluated.size());
  policy.classes = sites.outputs;
  policy.problem = sites.problem;
  policy.logit_thresholds = sites.logit_thresholds;
  std::copy(spec.params.begin(), spec.params.end(), policy.params);
  info.settle(policy.params, traits);
  std::fill(std::begin(policy.nth), std::end(policy.nth), -1);
  for (int n = 0; n < policy.count; ++n) {
    const auto at = static_cast<size_t>(n);
    const int site = evaluated[at];
    policy.site[n] = site;
    policy.nth[site] = n;
    policy.exit_value[n] = !spec.per_exit.empty()             ? spec.per_exit[at]
                           : info.per_exit == PerExit::weight ? 1.0F
                                                              : spec.params[0];
    policy.temperature[n] = spec.temperature.empty() ? 1.0F : spec.temperature[static_cast<size_t>(site)];
  }
  policy.ramp = sites.ramp && info.sole_layer(policy.params) == kEveryExit;
  policy.state_floats = rule_state(info, policy.params, policy.count);
  if (info.reads_shift) {
    policy.memory = policy.state_floats;
    policy.state_floats += memory_floats(policy.classes);
  }
  return policy;
}

}  // namespace exeunt
