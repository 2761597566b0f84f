// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/served_policies.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "exeunt/serve/http_message.h"

namespace exeunt::serve {
namespace {

constexpr auto kAdaptEvery = std::chrono::milliseconds(25);
constexpr size_t kMaxBound = 256;  // cached policies of clients; a range has no end of them
constexpr size_t kMaxName = 256;   // bytes of a policy, as clients write it

bool starts_rule(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(":,"));
  return std::ranges::any_of(kRules, [&](const RuleInfo& info) { return info.name == name; });
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

AllowedPolicies AllowedPolicies::exactly(const std::vector<PolicySpec>& policies) {
  AllowedPolicies out;
  for (const PolicySpec& policy : policies) {
    PolicySpec rule = policy;
    rule.exits.clear();
    rule.temperature.clear();
    rule.score_temperature.clear();
    std::string text = exeunt::str(rule);
    const bool known = std::ranges::any_of(out.items_, [&](const Item& i) { return i.text == text; });
    if (!known) out.items_.push_back({rule, rule, std::move(text)});
  }
  return out;
}

bool AllowedPolicies::allows(const PolicySpec& policy) const {
  return std::ranges::any_of(items_, [&](const Item& item) {
    if (policy.rule != item.low.rule) return false;
    for (size_t i = 0; i < policy.params.size(); ++i) {
      // Per-exit thresholds replace the first parameter.
      const bool replaced = i == 0 && !policy.per_exit.empty() && info_of(policy.rule).per_exit == PerExit::threshold;
      if (!replaced && !between(policy.params[i], item.low.params[i], item.high.params[i])) return false;
    }
    if (policy.per_exit == item.low.per_exit) return true;
    return info_of(policy.rule).per_exit == PerExit::threshold && item.low.per_exit.empty() &&
           std::ranges::all_of(policy.per_exit,
                               [&](float value) { return between(value, item.low.params[0], item.high.params[0]); });
  });
}

std::string AllowedPolicies::str() const {
  std::vector<std::string> texts;
  for (const Item& item : items_) texts.push_back(item.text);
  return fmt::format("{}", fmt::join(texts, ","));
}

ServedPolicies::ServedPolicies(PolicySettings settings, Bind bind)
    : settings_(std::move(settings)), bind_(std::move(bind)), controller_(1) {
  full_ = bind_(complete(parse_policy("full")), {});
  std::vector<PolicySpec> offered{parse_policy("full")};
  if (settings_.chosen) {
    offered.push_back(parse_policy(*settings_.chosen));
    points_.push_back({bind_(complete(offered.back()), {})});
  } else if (settings_.entry) {
    const PolicyEntry& entry = *settings_.entry;
    const std::vector<float> rates = entry.exit_rates(entry.policy);
    points_.push_back({bind_(entry.complete(), rates), entry.certificate ? entry.certificate->max_drop : 0, rates});
    offered.push_back(entry.policy);
    for (const PolicyPoint& point : entry.points) {
      offered.push_back(point.policy);
      const bool beyond_default = point.max_drop > points_.back().max_drop;
      if (!entry.certificate || !beyond_default || point.max_drop > settings_.max_drop_under_load) continue;
      points_.push_back({bind_(entry.complete(point.policy), point.exit_rates), point.max_drop, point.exit_rates});
    }
  } else {
    points_.push_back({full_});
  }
  allowed_ = settings_.allowed ? AllowedPolicies::parse(*settings_.allowed) : AllowedPolicies::exactly(offered);
  controller_ = LoadController(static_cast<int>(points_.size()));
}

void ServedPolicies::adapt(Clock::time_point now, double fill) noexcept {
  if (now < next_adapt_) return;
  next_adapt_ = now + kAdaptEvery;
  if (settings_.hashed) (void)controller_.update(now, fill);
}

Clock::time_point ServedPolicies::adapt_at(bool busy) const noexcept {
  return points_.size() > 1 && (busy || level() > 0) ? next_adapt_ : Clock::time_point::max();
}

// Calibrated exits and temperatures apply to every rule.
PolicySpec ServedPolicies::complete(PolicySpec rule) const {
  return settings_.entry ? settings_.entry->complete(rule) : rule;
}

std::shared_ptr<const BoundPolicy> ServedPolicies::named(const std::string& text) {
  if (const auto known = bound_.find(text); known != bound_.end()) return known->second;
  if (text.size() > kMaxName)
    throw invalid(fmt::format("exit: policy: got {} bytes, want at most {}", text.size(), kMaxName));
  try {
    const PolicySpec rule = parse_policy(text);
    if (!allowed_.allows(rule)) {
      throw invalid(fmt::format("exit: policy '{}' is not allowed here", text.substr(0, 64)),
                    fmt::format("allowed: {}", allowed_.str()));
    }
    auto policy = bind_(complete(rule), settings_.entry ? settings_.entry->exit_rates(rule) : std::vector<float>{});
    if (bound_.size() >= kMaxBound) bound_.clear();
    bound_.emplace(text, policy);
    return policy;
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    throw invalid(fmt::format("exit: {}", error.what()), error.hint());
  }
}

const ServedPolicies::Point* ServedPolicies::active_point() const noexcept {
  for (size_t i = static_cast<size_t>(level()) + 1; i-- > 0;) {
    if (!points_[i].tightened) return &points_[i];
  }
  return nullptr;
}

std::optional<size_t> ServedPolicies::point_of(const BoundPolicy& policy) const noexcept {
  for (size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].policy.get() == &policy) return i;
  }
  return std::nullopt;
}

void ServedPolicies::weights_hashed(bool same) {
  settings_.hashed = same;
  if (same) return;
  settings_.promise = no_promise("the weights are not those that the manifest tells");
  for (Point& point : points_) point.tightened = true;
}

bool ServedPolicies::certified() const noexcept {
  return settings_.hashed && active_point() != nullptr && !settings_.chosen && settings_.entry &&
         settings_.entry->certificate;
}

std::string ServedPolicies::promise() const {
  if (!settings_.hashed) return settings_.promise;
  const Point* point = active_point();
  if (point == nullptr) return no_promise("found broken on the texts of this server");
  if (!certified()) return settings_.promise.empty() ? no_promise("not certified") : settings_.promise;
  Certificate certificate = *settings_.entry->certificate;
  certificate.max_drop = point->max_drop;
  return promise_of(certificate, settings_.entry->precision);
}

std::optional<double> ServedPolicies::promised(size_t nth) const {
  if (settings_.chosen || !settings_.entry || !settings_.entry->certificate) return std::nullopt;
  const Certificate& certificate = *settings_.entry->certificate;
  if (!of_one_text(certificate.loss) || certificate.method == RiskMethod::crc) return std::nullopt;
  return points_.at(nth).max_drop;
}

std::map<int, float> ServedPolicies::calibrated_exits(size_t nth) const {
  const std::vector<float>& rates = points_.at(nth).exit_rates;
  std::map<int, float> out;
  for (size_t i = 0; i < rates.size(); ++i) out[settings_.entry->exits[i]] = rates[i];
  return out;
}

}  // namespace exeunt::serve
