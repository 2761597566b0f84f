// SPDX-License-Identifier: Apache-2.0
// Who may ask: keys are kept and compared as hashes, in a time that does not depend on how much of a key is right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace exeunt::serve {

class ApiKeys {
 public:
  ApiKeys() = default;  // nobody needs a key
  explicit ApiKeys(const std::vector<std::string>& keys);

  [[nodiscard]] bool required() const noexcept { return !hashes_.empty(); }
  // `authorization`: the field's value, "Bearer KEY".
  [[nodiscard]] bool allow(std::string_view authorization) const;

 private:
  std::vector<std::string> hashes_;
};

// One key a line; empty lines and lines that start with # are skipped. Throws Error (usage) for a key that is shorter
// than 8 bytes or holds blanks, and for a text without any key. `where` opens the message, which never shows a key.
[[nodiscard]] std::vector<std::string> parse_keys(std::string_view text, std::string_view where);

// Equal, found out without stopping at the first difference. Both have the same length, or the answer is no at once.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace exeunt::serve
