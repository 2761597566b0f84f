// SPDX-License-Identifier: Apache-2.0
// Which exit policies a client may ask for: "full,entropy:0..0.3,patience:2..6". A range holds for one parameter; all
// others must be as written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/exits/policy.h"

namespace exeunt::serve {

class AllowedPolicies {
 public:
  // Throws Error (usage) with the item that cannot be read.
  [[nodiscard]] static AllowedPolicies parse(std::string_view list);
  // Exactly these.
  [[nodiscard]] static AllowedPolicies only(const std::vector<PolicySpec>& policies);

  // Exits and temperatures are no part of what a client writes, and not compared.
  [[nodiscard]] bool hold(const PolicySpec& policy) const;
  [[nodiscard]] std::string str() const;  // as parse() reads it

 private:
  struct Item {
    PolicySpec low, high;  // every parameter lies between these; equal where there is no range
    std::string text;
  };
  [[nodiscard]] static Item parse_item(std::string_view text);
  std::vector<Item> items_;
};

}  // namespace exeunt::serve
