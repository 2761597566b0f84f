// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/python_text.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

std::string to_text(double value, std::chars_format format) {
  char buffer[512];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  check(error == std::errc(), "a double fits in 512 characters");
  return {buffer, end};
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (size != 0 && (size < 1e-4 || size >= 1e16)) return to_text(value, std::chars_format::scientific);
  std::string text = to_text(value, std::chars_format::fixed);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string python_dict(const std::map<int, int64_t>& values) {
  std::string text = "{";
  for (const auto& [key, value] : values) text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", key, value);
  return text + "}";
}

}  // namespace exeunt
