// SPDX-License-Identifier: Apache-2.0
// The small pieces that policy texts and sweeps are read and written with.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace exeunt {

[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char mark);

// The whole text as one finite number.
template <class Number>
[[nodiscard]] std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// The shortest text that reads back as the same float; "0" for both zeros.
[[nodiscard]] std::string shortest(float value);

// A policy text, and how its errors say where it came from. Refuses texts of absurd length.
class PolicySource {
 public:
  PolicySource(std::string_view text, std::string_view where);
  [[noreturn]] void fail(std::string_view why, std::string hint = {}) const;

 private:
  std::string_view text_, where_;
};

}  // namespace exeunt
