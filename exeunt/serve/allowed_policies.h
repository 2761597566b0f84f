// SPDX-License-Identifier: Apache-2.0
// The exit policies clients may select: "full,entropy:0..0.3,patience:2..6". A range applies to one parameter; the
// others must match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/policy/policy.h"

namespace exeunt::serve {

class AllowedPolicies {
 public:
  // Throws Error (usage) that names the bad item.
  [[nodiscard]] static AllowedPolicies parse(std::string_view list);
  // Exactly these.
  [[nodiscard]] static AllowedPolicies only(const std::vector<PolicySpec>& policies);

  // Exits and temperatures, which clients cannot set, are not compared.
  [[nodiscard]] bool hold(const PolicySpec& policy) const;
  [[nodiscard]] std::string str() const;  // as parse() reads it

 private:
  struct Item {
    PolicySpec low, high;  // bounds of every parameter; equal without a range
    std::string text;
  };
  [[nodiscard]] static Item parse_item(std::string_view text);
  std::vector<Item> items_;
};

}  // namespace exeunt::serve
