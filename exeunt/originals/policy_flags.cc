// SPDX-License-Identifier: Apache-2.0
#include "exeunt/originals/policy_flags.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/text_parts.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 5> kThresholdNames{"bias_1", "bias_2", "bias_3", "entropy", "logits"};

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

PolicySpec policy_of(const ElbertExit& exit, int classes) {
  const double threshold = std::max(0.0, exit.exit_thres);  // at or below zero the first stage is off
  if (exit.thres_name == "entropy") return threshold_policy(rule_of<NentropyRule>, threshold);
  if (exit.thres_name == "logits") {
    // "The smallest probability is below t" is "the largest exceeds 1 - t" where there are two.
    if (classes != 2) refuse("thres_name", exit.thres_name, "another rule: this one is for two classes");
    return threshold_policy(rule_of<ConfidenceRule>, 1 - threshold);
  }
  PolicySpec spec = parse_policy("window:0,1,bias_1");
  const auto mode = std::find(kThresholdNames.begin(), kThresholdNames.begin() + 3, exit.thres_name);
  if (mode == kThresholdNames.begin() + 3)
    refuse("thres_name", exit.thres_name, "bias_1, bias_2, bias_3, entropy or logits");
  spec.params[0] = static_cast<float>(threshold);
  spec.params[1] = static_cast<float>(std::trunc(exit.cnt_thres));
  spec.params[2] = static_cast<float>(mode - kThresholdNames.begin());
  spec.params[3] = static_cast<float>(exit.margin);
  if (exit.thres_name == "bias_3" && exit.range_tmp) spec.params[4] = static_cast<float>(*exit.range_tmp);
  check_spec(spec);
  return spec;
}

ElbertExit elbert_exit_of(const PolicySpec& policy) {
  ElbertExit exit;
  const auto value = [&](size_t i) { return *number_of<double>(shortest(policy.params[i])); };
  if (policy.rule == rule_of<NentropyRule> && policy.per_exit.empty()) {
    exit.thres_name = "entropy";
    exit.exit_thres = value(0);
    return exit;
  }
  if (policy.rule != rule_of<WindowRule>)
    refuse("policy", str(policy), "a window or nentropy policy: ELBERT's keys describe no other");
  exit.exit_thres = value(0);
  exit.cnt_thres = value(1);
  exit.thres_name = kThresholdNames[static_cast<size_t>(policy.params[2])];
  exit.margin = value(3);
  if (exit.thres_name == "bias_3") exit.range_tmp = value(4);
  return exit;
}

void set_elbert_key(ElbertExit& exit, std::string_view key, std::string_view value) {
  if (key == "thres_name") {
    const std::vector<std::string> known(kThresholdNames.begin(), kThresholdNames.end());
    if (std::find(known.begin(), known.end(), value) == known.end())
      throw Error(Code::usage, fmt::format("thres_name: got '{}'", value.substr(0, 64)), suggestion(value, known));
    exit.thres_name = value;
    return;
  }
  const std::vector<std::string> known{"thres_name", "exit_thres", "cnt_thres", "margin", "range_tmp"};
  if (std::find(known.begin(), known.end(), key) == known.end())
    throw Error(Code::usage, fmt::format("unknown key '{}'", key.substr(0, 64)), suggestion(key, known));
  const double number = number_for(key, value);
  if (key == "exit_thres") exit.exit_thres = number;
  if (key == "cnt_thres") exit.cnt_thres = number;
  if (key == "margin") exit.margin = number;
  if (key == "range_tmp") exit.range_tmp = number;
}

}  // namespace exeunt
