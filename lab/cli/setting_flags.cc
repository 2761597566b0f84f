// SPDX-License-Identifier: Apache-2.0
#include "lab/cli/setting_flags.h"

#include "apps/exeunt/manual.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/number.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/policy/policy_text.h"
#include "lab/papers/policy_flags.h"

namespace exeunt::apps {
namespace {

// What an old flag says today: "patience:3|4|5" for settings of one rule, else one --policy each.
std::string new_form(const std::vector<PolicySpec>& policies) {
  std::string listed = str(policies.front());
  std::string apart = fmt::format("--policy '{}'", listed);
  bool one_rule = true;
  for (size_t i = 1; i < policies.size(); ++i) {
    const std::string text = str(policies[i]);
    const size_t colon = text.find(':');
    one_rule = one_rule && policies[i].rule == policies[0].rule && colon != std::string::npos &&
               text.find(',') == std::string::npos;
    if (one_rule) listed += "|" + text.substr(colon + 1);
    apart += fmt::format(" --policy '{}'", text);
  }
  return one_rule ? fmt::format("--policy '{}'", listed) : apart;
}

void add_old(const Common& common, std::string_view flag, std::vector<PolicySpec> policies,
             std::vector<PolicySpec>& out) {
  notice(common, fmt::format("{} is an old name; use {}", flag, new_form(policies)));
  for (PolicySpec& policy : policies) out.push_back(std::move(policy));
}

std::optional<float> threshold_of(const OldSettingFlags& flags) {
  if (flags.regression_threshold.empty()) return std::nullopt;
  if (flags.patience.empty())
    throw Error(Code::usage, "--regression-threshold goes with --patience", "use --policy 'patience:6,tol=0.1'");
  const auto value = number_of<float>(flags.regression_threshold);
  if (!value || *value < 0) {
    throw Error(Code::usage,
                fmt::format("--regression-threshold: got '{}', want 0 or more", flags.regression_threshold));
  }
  return value;
}

}  // namespace

void add_old_setting_flags(CLI::App& verb, OldSettingFlags& flags, const std::string& name) {
  add_setting_flags(verb, flags, name);
  const OptionGroup group(verb, kOriginals);
  verb.add_option("--patience", flags.patience, "PABEE: 3,4,5 is --policy 'patience:3|4|5'");
  verb.add_option("--regression-threshold", flags.regression_threshold, "PABEE: the tolerance of a regression");
  verb.add_option("--early-exit-entropy", flags.entropy, "DeeBERT, ElasticBERT: 0.1,0.2 is --policy 'entropy:0.1|0.2'");
  verb.add_option("--lte-th", flags.lte, "BERxiT: 0.2, or value,repeat groups as in '0.3,4;0.2,8'");
}

SettingsFor settings_of_flags(const Common& common, const OldSettingFlags& flags, bool own) {
  std::vector<PolicySpec> named = named_settings(flags), old;
  const std::optional<float> tolerance = threshold_of(flags);
  if (!flags.patience.empty()) add_old(common, "--patience", patience_list(flags.patience, tolerance), old);
  if (!flags.entropy.empty()) add_old(common, "--early-exit-entropy", entropy_list(flags.entropy), old);
  if (!flags.lte.empty()) add_old(common, "--lte-th", {lte_groups(flags.lte)}, old);
  for (PolicySpec& policy : old) {
    policy.exits = layer_list(flags.exits, "--exits");
    named.push_back(std::move(policy));
  }
  return [&common, &flags, named, own](const Measured& measured) {
    const ExitTrace& trace = measured.trace;
    const std::vector<int> exits = layer_list(flags.exits, "--exits");
    if (named.empty() && own) return std::vector{resolve_measured(measured, {.exits = exits}, observer(common)).policy};
    std::vector<PolicySpec> out = named.empty() ? default_settings(trace) : named;
    if (named.empty())
      for (PolicySpec& policy : out) policy.exits = exits;
    if (flags.regression_threshold.empty() || trace.info.problem == Problem::regression) return out;
    notice(common, "--regression-threshold is ignored: the model predicts classes");
    for (PolicySpec& policy : out)
      if (policy.rule == rule_of<PatienceRule>) policy.params[1] = PatienceRule::kNoTolerance;
    return out;
  };
}

}  // namespace exeunt::apps
