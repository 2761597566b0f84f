// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/setting_flags.h"

#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"
#include "exeunt/eval/report.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/sweep.h"
#include "exeunt/exits/text_parts.h"
#include "exeunt/originals/policy_flags.h"

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

std::optional<float> threshold_of(const SettingFlags& flags) {
  if (flags.regression_threshold.empty()) return std::nullopt;
  if (flags.patience.empty())
    throw Error(Code::usage, "--regression-threshold: goes with --patience", "today: --policy 'patience:6,tol=0.1'");
  const auto value = number_of<float>(flags.regression_threshold);
  if (!value || *value < 0) {
    throw Error(Code::usage,
                fmt::format("--regression-threshold: got '{}', want a number from 0 on", flags.regression_threshold));
  }
  return value;
}

void use_exits(const SettingFlags& flags, std::vector<PolicySpec>& policies) {
  const std::vector<int> exits = layer_list(flags.exits, "--exits");
  for (PolicySpec& policy : policies) policy.exits = exits;
}

}  // namespace

void add_setting_flags(CLI::App& verb, SettingFlags& flags, const std::string& name) {
  verb.add_option(name, flags.policies,
                  "Settings: ranges (entropy:0..0.7/0.05) and lists (patience:3|4|5); repeat for more; a usual choice "
                  "if left out")
      ->allow_extra_args(false)
      ->type_name("POLICY");
  verb.add_option("--exits", flags.exits, "Layers whose exits are used, with commas; all if left out")
      ->type_name("LAYERS");
  constexpr const char* kGroup = kOriginals;
  verb.add_option("--patience", flags.patience, "PABEE: 3,4,5 is --policy 'patience:3|4|5'")
      ->type_name("LIST")
      ->group(kGroup);
  verb.add_option("--regression-threshold", flags.regression_threshold, "PABEE: the tolerance of a regression")
      ->type_name("X")
      ->group(kGroup);
  verb.add_option("--early-exit-entropy", flags.entropy, "DeeBERT, ElasticBERT: 0.1,0.2 is --policy 'entropy:0.1|0.2'")
      ->type_name("LIST")
      ->group(kGroup);
  verb.add_option("--lte-th", flags.lte, "BERxiT: 0.2, or value,repeat groups as in '0.3,4;0.2,8'")
      ->type_name("GROUPS")
      ->group(kGroup);
}

std::vector<PolicySpec> named_settings(const Common& common, const SettingFlags& flags) {
  std::vector<PolicySpec> out;
  for (const std::string& text : flags.policies) {
    for (PolicySpec& policy : parse_sweep(text)) out.push_back(std::move(policy));
  }
  const std::optional<float> tolerance = threshold_of(flags);
  if (!flags.patience.empty()) add_old(common, "--patience", patience_list(flags.patience, tolerance), out);
  if (!flags.entropy.empty()) add_old(common, "--early-exit-entropy", entropy_list(flags.entropy), out);
  if (!flags.lte.empty()) add_old(common, "--lte-th", {lte_groups(flags.lte)}, out);
  use_exits(flags, out);
  return out;
}

std::vector<PolicySpec> settings_or_default(const std::vector<PolicySpec>& named, const SettingFlags& flags,
                                            const ExitTrace& trace) {
  if (!named.empty()) return named;
  std::vector<PolicySpec> out = default_settings(trace);
  use_exits(flags, out);
  return out;
}

}  // namespace exeunt::apps
