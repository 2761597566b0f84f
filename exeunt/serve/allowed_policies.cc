// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/allowed_policies.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt::serve {
namespace {

bool starts_rule(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(":,"));
  return std::any_of(kRules.begin(), kRules.end(), [&](const RuleInfo& info) { return info.name == name; });
}

// Splits at commas followed by a rule's name: the others belong to a policy, as in "window:0.1,8,bias_1".
std::vector<std::string_view> items_of(std::string_view list) {
  std::vector<std::string_view> items;
  size_t start = 0;
  for (size_t at = 0; at < list.size(); ++at) {
    if (list[at] != ',' || !starts_rule(list.substr(at + 1))) continue;
    items.push_back(list.substr(start, at - start));
    start = at + 1;
  }
  items.push_back(list.substr(start));
  return items;
}

bool between(float value, float low, float high) noexcept {
  return value >= std::min(low, high) && value <= std::max(low, high);
}

}  // namespace

AllowedPolicies::Item AllowedPolicies::parse_item(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const PolicySpec policy = parse_policy(text);
    return {policy, policy, std::string(text)};
  }
  // The number before the dots starts after the last mark, the one after them ends at the next comma.
  const size_t start = text.find_last_of(":,=", dots) + 1;
  const size_t end = std::min(text.find(',', dots), text.size());
  if (text.find("..", dots + 2) != std::string_view::npos || start == 0) {
    throw Error(Code::usage, fmt::format("--allow-policies: '{}': want one range", text.substr(0, 64)),
                "e.g. full,entropy:0..0.3");
  }
  const auto with = [&](std::string_view number) {
    return parse_policy(fmt::format("{}{}{}", text.substr(0, start), number, text.substr(end)));
  };
  return {with(text.substr(start, dots - start)), with(text.substr(dots + 2, end - dots - 2)), std::string(text)};
}

AllowedPolicies AllowedPolicies::parse(std::string_view list) {
  AllowedPolicies out;
  for (const std::string_view item : items_of(list)) out.items_.push_back(parse_item(item));
  return out;
}

AllowedPolicies AllowedPolicies::only(const std::vector<PolicySpec>& policies) {
  AllowedPolicies out;
  for (const PolicySpec& policy : policies) {
    PolicySpec rule = policy;
    rule.exits.clear();
    rule.temperature.clear();
    rule.score_temperature.clear();
    std::string text = exeunt::str(rule);
    const bool known = std::any_of(out.items_.begin(), out.items_.end(), [&](const Item& i) { return i.text == text; });
    if (!known) out.items_.push_back({rule, rule, std::move(text)});
  }
  return out;
}

bool AllowedPolicies::hold(const PolicySpec& policy) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    if (policy.rule != item.low.rule) return false;
    for (size_t i = 0; i < policy.params.size(); ++i) {
      // Per-exit thresholds replace the first parameter.
      const bool replaced = i == 0 && !policy.per_exit.empty() && info_of(policy.rule).per_exit == PerExit::threshold;
      if (!replaced && !between(policy.params[i], item.low.params[i], item.high.params[i])) return false;
    }
    if (policy.per_exit == item.low.per_exit) return true;
    return info_of(policy.rule).per_exit == PerExit::threshold && item.low.per_exit.empty() &&
           std::all_of(policy.per_exit.begin(), policy.per_exit.end(),
                       [&](float value) { return between(value, item.low.params[0], item.high.params[0]); });
  });
}

std::string AllowedPolicies::str() const {
  std::vector<std::string> texts;
  for (const Item& item : items_) texts.push_back(item.text);
  return fmt::format("{}", fmt::join(texts, ","));
}

}  // namespace exeunt::serve
