// SPDX-License-Identifier: Apache-2.0
// The policies of a served model: the default one, which under load moves along the certified points, and those that
// clients may request by name. Used only by the network thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/serve/allowed_policies.h"
#include "exeunt/serve/load_controller.h"

namespace exeunt::serve {

struct PolicySettings {
  std::optional<PolicyEntry> entry = {};    // of policy.json, for the precision that is served
  std::optional<std::string> chosen = {};   // --policy: replaces the entry's
  std::optional<std::string> allowed = {};  // --allow-policies; none = the certified points and full
  double max_drop_under_load = 0;           // 0 = the default policy, always
  std::string promise = {};                 // of the default policy where it is not certified: "none (why)"
};

class ServedPolicies {
 public:
  // A policy, and its exit rates from calibration or none. Throws Error.
  using Bind = std::function<std::shared_ptr<const AskPolicy>(const PolicySpec&, std::vector<float>)>;

  // Throws Error (usage) for a policy that is malformed or does not fit the model.
  ServedPolicies(PolicySettings settings, Bind bind);

  // The default policy now, its certified loss (0 without a certificate), and the load level.
  [[nodiscard]] const std::shared_ptr<const AskPolicy>& current() const noexcept {
    const Point* point = standing();
    return point == nullptr ? full_ : point->policy;
  }
  [[nodiscard]] double epsilon() const noexcept {
    const Point* point = standing();
    return point == nullptr ? 0 : point->epsilon;
  }
  [[nodiscard]] int level() const noexcept { return controller_.level(); }
  [[nodiscard]] const std::shared_ptr<const AskPolicy>& full() const noexcept { return full_; }

  // Adapts the load level to the queue's fill, from 0 to 1.
  void adapt(Clock::time_point now, double fill) noexcept;
  // When to call `adapt` next. `busy`: requests are running.
  [[nodiscard]] Clock::time_point adapt_at(bool busy) const noexcept;

  // The points along which the default moves, by rising loss: which one a policy is, and what it was certified for.
  [[nodiscard]] size_t points() const noexcept { return points_.size(); }
  [[nodiscard]] const AskPolicy& point(size_t nth) const { return *points_.at(nth).policy; }
  [[nodiscard]] std::optional<size_t> point_of(const AskPolicy& policy) const noexcept;
  // The mean loss against the reference that shadow runs can test, because it is certified with a confidence and needs
  // no labels: disagreement and the difference of values. A drop in accuracy needs gold labels, and what holds in
  // expectation over samples may be exceeded by the one policy that is served.
  [[nodiscard]] std::optional<double> promised(size_t nth) const;
  // This point is served no more: in its place the nearest one below it that is, else full depth.
  void tighten(size_t nth) noexcept { points_[nth].tightened = true; }

  // A policy selected by a client; throws Refusal (422) if malformed or not allowed.
  [[nodiscard]] std::shared_ptr<const AskPolicy> named(const std::string& text);

  [[nodiscard]] std::string allowed() const { return allowed_.str(); }
  [[nodiscard]] const std::optional<PolicyEntry>& entry() const noexcept { return settings_.entry; }
  [[nodiscard]] bool certified() const noexcept;  // the current default policy
  [[nodiscard]] std::string promise() const;      // what it promises, in one sentence

 private:
  struct Point {
    std::shared_ptr<const AskPolicy> policy;
    double epsilon = 0;
    bool tightened = false;
  };
  [[nodiscard]] const Point* standing() const noexcept;  // the point of the load level; null: full depth
  [[nodiscard]] PolicySpec complete(PolicySpec rule) const;

  PolicySettings settings_;
  Bind bind_;
  AllowedPolicies allowed_;
  std::shared_ptr<const AskPolicy> full_;
  std::vector<Point> points_;  // largest loss last
  LoadController controller_;
  Clock::time_point next_adapt_ = {};
  std::map<std::string, std::shared_ptr<const AskPolicy>, std::less<>> bound_ = {};
};

}  // namespace exeunt::serve
