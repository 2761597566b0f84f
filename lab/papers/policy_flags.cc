// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/policy_flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

[[noreturn]] void refuse(std::string_view flag, std::string_view got, std::string_view want) {
  throw Error(Code::usage, fmt::format("{}: got '{}', want {}", flag, got.substr(0, 64), want));
}

double number_for(std::string_view flag, std::string_view text) {
  const auto value = number_of<double>(text);
  if (!value) refuse(flag, text, "a number");
  return *value;
}

PolicySpec threshold_policy(Rule rule, double threshold) {
  PolicySpec spec;
  spec.rule = rule;
  spec.params[0] = static_cast<float>(threshold);
  check_spec(spec);
  return spec;
}

}  // namespace

std::vector<PolicySpec> patience_list(std::string_view text, std::optional<float> regression_threshold) {
  std::vector<PolicySpec> policies;
  for (const std::string_view part : split(text, ',')) {
    const auto patience = number_of<int>(part);
    if (!patience || *patience < 0 || *patience > kMaxPatience)
      refuse("--patience", text, fmt::format("whole numbers from 0 to {} with commas", kMaxPatience));
    std::string policy = fmt::format("patience:{}", *patience);
    if (regression_threshold && *patience > 0) policy += ",tol=" + shortest(*regression_threshold);
    policies.push_back(parse_policy(policy));
  }
  return policies;
}

std::vector<PolicySpec> entropy_list(std::string_view text) {
  std::vector<PolicySpec> policies;
  for (const std::string_view part : split(text, ',')) {
    const double threshold = number_for("--early_exit_entropy", part);
    policies.push_back(threshold < 0 ? PolicySpec{} : threshold_policy(rule_of<EntropyRule>, threshold));
  }
  return policies;
}

PolicySpec lte_groups(std::string_view text) {
  if (text.find(',') == std::string_view::npos) return threshold_policy(rule_of<LteRule>, number_for("--lte_th", text));
  PolicySpec spec;
  spec.rule = rule_of<LteRule>;
  for (const std::string_view group : split(text, ';')) {
    const std::vector<std::string_view> parts = split(group, ',');
    const auto repeat = parts.size() == 2 ? number_of<int>(parts[1]) : std::nullopt;
    if (!repeat || *repeat < 1 || *repeat > kMaxExits)
      refuse("--lte_th", text, "a value, or groups of value,repeat as in 0.3,4;0.2,8");
    const auto value = static_cast<float>(number_for("--lte_th", parts[0]));
    if (spec.per_exit.size() + static_cast<size_t>(*repeat) > kMaxExits)
      refuse("--lte_th", text, fmt::format("at most {} exits", kMaxExits));
    spec.per_exit.insert(spec.per_exit.end(), static_cast<size_t>(*repeat), value);
  }
  check_spec(spec);
  return spec;
}

void set_elbert_key(ConfigRule& rule, std::string_view key, std::string_view value) {
  static const std::vector<std::string> keys{"thres_name", "exit_thres", "cnt_thres", "margin", "range_tmp"};
  if (std::find(keys.begin(), keys.end(), key) == keys.end())
    throw Error(Code::usage, fmt::format("unknown key '{}'", key.substr(0, 64)), suggestion(key, keys));
  if (key == "thres_name") {
    rule.thres_name = value;
    return;
  }
  const auto number = number_of<double>(value);
  if (!number) throw Error(Code::usage, fmt::format("{}: got '{}', want a number", key, value.substr(0, 64)));
  if (key == "exit_thres") rule.exit_thres = *number;
  if (key == "cnt_thres") rule.cnt_thres = *number;
  if (key == "margin") rule.margin = *number;
  if (key == "range_tmp") rule.range_tmp = *number;
}

std::optional<ConfigRule> elbert_rule_of(const PolicySpec& policy) {
  const auto value = [&](size_t i) { return *number_of<double>(shortest(policy.params[i])); };
  ConfigRule rule;
  rule.exit_thres = value(0);
  if (policy.rule == rule_of<WindowRule>) {
    rule.thres_name = WindowRule::kModes[static_cast<size_t>(policy.params[2])];
    rule.cnt_thres = value(1);
    rule.margin = value(3);
    if (rule.thres_name == "bias_3") rule.range_tmp = value(4);
    return rule;
  }
  if (!policy.per_exit.empty()) return std::nullopt;
  rule.thres_name = policy.rule == rule_of<NentropyRule> ? "entropy" : "logits";
  if (policy.rule == rule_of<ConfidenceRule>) rule.exit_thres = 1 - rule.exit_thres;
  const bool known = policy.rule == rule_of<NentropyRule> || policy.rule == rule_of<ConfidenceRule> ||
                     policy.rule == rule_of<MinprobRule>;
  if (!known) return std::nullopt;
  return rule;
}

}  // namespace exeunt
