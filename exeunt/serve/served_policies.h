// SPDX-License-Identifier: Apache-2.0
// The policies of a served model: the default one, which under load moves along the certified points, and those that
// clients may request by name. Used only by the network thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_file.h"

namespace exeunt::serve {

// The exit policies clients may select: "full,entropy:0..0.3,patience:2..6". A range applies to one parameter; the
// others must match.
class AllowedPolicies {
 public:
  // Throws Error (usage) that names the bad item.
  [[nodiscard]] static AllowedPolicies parse(std::string_view list);
  // Exactly these.
  [[nodiscard]] static AllowedPolicies exactly(const std::vector<PolicySpec>& policies);

  // Exits and temperatures, which clients cannot set, are not compared.
  [[nodiscard]] bool allows(const PolicySpec& policy) const;
  [[nodiscard]] std::string str() const;  // as parse() reads it

 private:
  struct Item {
    PolicySpec low, high;  // bounds of every parameter; equal without a range
    std::string text;
  };
  [[nodiscard]] static Item parse_item(std::string_view text);
  std::vector<Item> items_;
};

// Under load, exit earlier before refusing requests: steps along a policy's certified points, largest loss last.
class LoadController {
 public:
  // `levels`: the number of points up to the largest loss allowed.
  explicit LoadController(int levels) : levels_(std::max(levels, 1)) {}

  // Called regularly with the queue's fill, from 0 to 1. Returns the point to use, from 0. Steps up quickly (the queue
  // fills in milliseconds) and down slowly, to avoid oscillation.
  int update(Clock::time_point now, double fill) noexcept {
    constexpr auto kUp = std::chrono::milliseconds(50), kDown = std::chrono::milliseconds(2000);
    const bool high = fill >= 0.5, low = fill <= 0.1;
    if (high != was_high_ || low != was_low_) since_ = now;
    was_high_ = high;
    was_low_ = low;
    if (high && level_ + 1 < levels_ && now - since_ >= kUp) {
      ++level_;
      since_ = now;
    } else if (low && level_ > 0 && now - since_ >= kDown) {
      --level_;
      since_ = now;
    }
    return level_;
  }
  [[nodiscard]] int level() const noexcept { return level_; }

 private:
  int levels_, level_ = 0;
  bool was_high_ = false, was_low_ = false;
  Clock::time_point since_ = {};
};

struct PolicySettings {
  std::optional<PolicyEntry> entry = {};    // of policy.json, for the precision that is served
  std::optional<std::string> chosen = {};   // --policy: replaces the entry's
  std::optional<std::string> allowed = {};  // --allow-policies; none = the certified points and full
  double max_drop_under_load = 0;           // 0 = the default policy, always
  std::string promise = {};                 // of the default policy where it is not certified: "none (why)"
  bool hashed = true;                       // false: nothing is certified until weights_hashed()
};

class ServedPolicies {
 public:
  // A policy, and its exit rates from calibration or none. Throws Error.
  using Bind = std::function<std::shared_ptr<const BoundPolicy>(const PolicySpec&, std::vector<float>)>;

  // Throws Error (usage) for a policy that is malformed or does not fit the model.
  ServedPolicies(PolicySettings settings, Bind bind);

  // The default policy now, its certified loss (0 without a certificate), and the load level.
  [[nodiscard]] const std::shared_ptr<const BoundPolicy>& current() const noexcept {
    const Point* point = active_point();
    return point == nullptr ? full_ : point->policy;
  }
  [[nodiscard]] double max_drop() const noexcept {
    const Point* point = active_point();
    return point == nullptr || !settings_.hashed ? 0 : point->max_drop;
  }
  [[nodiscard]] int level() const noexcept { return controller_.level(); }

  // Adapts the load level to the queue's fill, from 0 to 1.
  void adapt(Clock::time_point now, double fill) noexcept;
  // When to call `adapt` next. `busy`: requests are running.
  [[nodiscard]] Clock::time_point adapt_at(bool busy) const noexcept;

  // The points along which the default moves, by rising loss: which one a policy is, and what it was certified for.
  [[nodiscard]] size_t points() const noexcept { return points_.size(); }
  [[nodiscard]] const BoundPolicy& point(size_t nth) const { return *points_.at(nth).policy; }
  [[nodiscard]] std::optional<size_t> point_of(const BoundPolicy& policy) const noexcept;
  // The mean loss against the reference that shadow runs can test, because it is certified with a confidence and needs
  // no labels: disagreement and the difference of values. A drop in accuracy needs gold labels, and what holds in
  // expectation over samples may be exceeded by the one policy that is served.
  [[nodiscard]] std::optional<double> promised(size_t nth) const;
  // The share of the certification texts that each exit answered by this point, by layer; empty: not known.
  [[nodiscard]] std::map<int, float> calibrated_exits(size_t nth) const;
  // This point is served no more: in its place the nearest one below it that is, else full depth.
  void tighten(size_t nth) noexcept { points_[nth].tightened = true; }

  // A policy selected by a client; throws Refusal (422) if malformed or not allowed.
  [[nodiscard]] std::shared_ptr<const BoundPolicy> named(const std::string& text);

  [[nodiscard]] std::string allowed() const { return allowed_.str(); }
  [[nodiscard]] const std::optional<PolicyEntry>& entry() const noexcept { return settings_.entry; }
  // The weights were hashed: if they are those that the policies were made for, certificates hold from now on; if not,
  // everything runs at full depth, and nothing is ever certified.
  void weights_hashed(bool same);
  [[nodiscard]] bool hashed() const noexcept { return settings_.hashed; }
  [[nodiscard]] bool certified() const noexcept;  // the current default policy
  [[nodiscard]] std::string promise() const;      // what it promises, in one sentence

 private:
  struct Point {
    std::shared_ptr<const BoundPolicy> policy;
    double max_drop = 0;
    std::vector<float> exit_rates = {};  // of calibration
    bool tightened = false;
  };
  [[nodiscard]] const Point* active_point() const noexcept;  // the point of the load level; null: full depth
  [[nodiscard]] PolicySpec complete(PolicySpec rule) const;

  PolicySettings settings_;
  Bind bind_;
  AllowedPolicies allowed_;
  std::shared_ptr<const BoundPolicy> full_;
  std::vector<Point> points_;  // largest loss last
  LoadController controller_;
  Clock::time_point next_adapt_ = {};
  std::map<std::string, std::shared_ptr<const BoundPolicy>, std::less<>> bound_ = {};
};

}  // namespace exeunt::serve
