// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/served_policies.h"

#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "exeunt/serve/refusal.h"

namespace exeunt::serve {
namespace {

constexpr auto kAdaptEvery = std::chrono::milliseconds(25);
constexpr size_t kMaxBound = 256;  // cached policies of clients; a range has no end of them
constexpr size_t kMaxName = 256;   // bytes of a policy, as clients write it

}  // namespace

ServedPolicies::ServedPolicies(PolicySettings settings, Bind bind)
    : settings_(std::move(settings)), bind_(std::move(bind)), controller_(1) {
  full_ = bind_(complete(parse_policy("full")), {});
  std::vector<PolicySpec> offered{parse_policy("full")};
  if (settings_.chosen) {
    offered.push_back(parse_policy(*settings_.chosen));
    points_.push_back({bind_(complete(offered.back()), {})});
  } else if (settings_.entry) {
    const PolicyEntry& entry = *settings_.entry;
    points_.push_back(
        {bind_(entry.complete(), entry.exit_rates(entry.policy)), entry.certificate ? entry.certificate->epsilon : 0});
    offered.push_back(entry.policy);
    for (const PolicyPoint& point : entry.points) {
      offered.push_back(point.policy);
      const bool beyond_default = point.epsilon > points_.back().epsilon;
      if (!entry.certificate || !beyond_default || point.epsilon > settings_.max_drop_under_load) continue;
      points_.push_back({bind_(entry.complete(point.policy), point.exit_rates), point.epsilon});
    }
  } else {
    points_.push_back({full_});
  }
  allowed_ = settings_.allowed ? AllowedPolicies::parse(*settings_.allowed) : AllowedPolicies::only(offered);
  controller_ = LoadController(static_cast<int>(points_.size()));
}

void ServedPolicies::adapt(Clock::time_point now, double fill) noexcept {
  if (now < next_adapt_) return;
  next_adapt_ = now + kAdaptEvery;
  (void)controller_.update(now, fill);
}

Clock::time_point ServedPolicies::adapt_at(bool busy) const noexcept {
  return points_.size() > 1 && (busy || level() > 0) ? next_adapt_ : Clock::time_point::max();
}

// Calibrated exits and temperatures apply to every rule.
PolicySpec ServedPolicies::complete(PolicySpec rule) const {
  return settings_.entry ? settings_.entry->complete(rule) : rule;
}

std::shared_ptr<const AskPolicy> ServedPolicies::named(const std::string& text) {
  if (const auto known = bound_.find(text); known != bound_.end()) return known->second;
  if (text.size() > kMaxName)
    throw invalid(fmt::format("exit: policy: got {} bytes, want at most {}", text.size(), kMaxName));
  try {
    const PolicySpec rule = parse_policy(text);
    if (!allowed_.hold(rule)) {
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

const ServedPolicies::Point* ServedPolicies::standing() const noexcept {
  for (size_t i = static_cast<size_t>(level()) + 1; i-- > 0;) {
    if (!points_[i].tightened) return &points_[i];
  }
  return nullptr;
}

std::optional<size_t> ServedPolicies::point_of(const AskPolicy& policy) const noexcept {
  for (size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].policy.get() == &policy) return i;
  }
  return std::nullopt;
}

bool ServedPolicies::certified() const noexcept {
  return standing() != nullptr && !settings_.chosen && settings_.entry && settings_.entry->certificate;
}

std::string ServedPolicies::promise() const {
  const Point* point = standing();
  if (point == nullptr) return no_promise("found broken on the texts of this server");
  if (!certified()) return settings_.promise.empty() ? no_promise("not certified") : settings_.promise;
  Certificate certificate = *settings_.entry->certificate;
  certificate.epsilon = point->epsilon;
  return promise_of(certificate, settings_.entry->precision);
}

std::optional<double> ServedPolicies::promised(size_t nth) const {
  if (settings_.chosen || !settings_.entry || !settings_.entry->certificate) return std::nullopt;
  const Certificate& certificate = *settings_.entry->certificate;
  if (certificate.loss == RiskLoss::zero_one_drop || certificate.method == RiskMethod::crc) return std::nullopt;
  return points_.at(nth).epsilon;
}

}  // namespace exeunt::serve
