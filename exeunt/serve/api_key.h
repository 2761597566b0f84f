// SPDX-License-Identifier: Apache-2.0
// API keys, kept as hashes and compared in constant time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace exeunt::serve {

class ApiKeys {
 public:
  ApiKeys() = default;  // no key is required
  explicit ApiKeys(const std::vector<std::string>& keys);

  [[nodiscard]] bool required() const noexcept { return !hashes_.empty(); }
  // `authorization`: the field's value, "Bearer KEY".
  [[nodiscard]] bool allow(std::string_view authorization) const;

 private:
  std::vector<std::string> hashes_;
};

// One key per line; empty lines and lines that start with # are skipped. Throws Error (usage) for a key shorter than 8
// bytes or with spaces, and if there is no key. `where` prefixes the message, which never shows a key.
[[nodiscard]] std::vector<std::string> parse_keys(std::string_view text, std::string_view where);

// Equality in constant time for texts of equal length.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace exeunt::serve
