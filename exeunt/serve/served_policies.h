// SPDX-License-Identifier: Apache-2.0
// The policies of a served model: the one in force by default, the certified points beside it, and those that clients
// may ask for by name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/exits/policy_file.h"
#include "exeunt/runtime/engine.h"
#include "exeunt/serve/allowed_policies.h"

namespace exeunt::serve {

struct PolicySettings {
  std::optional<PolicyEntry> entry = {};    // of policy.json, for the precision that is served
  std::optional<std::string> chosen = {};   // --policy: in the place of the entry's
  std::optional<std::string> allowed = {};  // --allow-policies; none = the certified points and full
  double max_drop_under_load = 0;           // 0 = the default policy, always
};

class ServedPolicies {
 public:
  // A policy, and the exit rates known of it from calibration or none. Throws Error.
  using Bind = std::function<std::shared_ptr<const AskPolicy>(const PolicySpec&, std::vector<float>)>;

  // Throws Error (usage) where a policy cannot be read or does not fit the model.
  ServedPolicies(PolicySettings settings, Bind bind);

  // The point in force at `level` steps of the load controller; level 0 is the default.
  [[nodiscard]] const std::shared_ptr<const AskPolicy>& at(int level) const {
    return points_[static_cast<size_t>(level)];
  }
  [[nodiscard]] int levels() const noexcept { return static_cast<int>(points_.size()); }
  [[nodiscard]] double epsilon(int level) const noexcept { return epsilons_[static_cast<size_t>(level)]; }
  [[nodiscard]] const std::shared_ptr<const AskPolicy>& full() const noexcept { return full_; }

  // What a client asked for; throws Refusal (422) where it may not or where it makes no sense.
  [[nodiscard]] std::shared_ptr<const AskPolicy> named(const std::string& text);

  [[nodiscard]] std::string allowed() const { return allowed_.str(); }
  [[nodiscard]] const std::optional<PolicyEntry>& entry() const noexcept { return settings_.entry; }
  [[nodiscard]] bool certified() const noexcept;
  // The mean disagreement promised by the default policy, where that is what was promised.
  [[nodiscard]] std::optional<double> promised() const;

 private:
  [[nodiscard]] PolicySpec complete(PolicySpec rule) const;

  PolicySettings settings_;
  Bind bind_;
  AllowedPolicies allowed_;
  std::shared_ptr<const AskPolicy> full_;
  std::vector<std::shared_ptr<const AskPolicy>> points_;
  std::vector<double> epsilons_;
  std::map<std::string, std::shared_ptr<const AskPolicy>, std::less<>> bound_ = {};
};

}  // namespace exeunt::serve
