// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/python.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

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

// Little-endian, whatever the machine.
template <class Number>
void PickleWriter::add_bytes(Number value) {
  for (size_t i = 0; i < sizeof value; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xff);
}

PickleWriter::PickleWriter() : out_("\x80\x03", 2) {}

void PickleWriter::integer(int64_t value) {
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    add('J');
    add_bytes(static_cast<uint32_t>(static_cast<int32_t>(value)));
    return;
  }
  out_ += "\x8a\x08";  // LONG1 of eight bytes, two's complement
  add_bytes(static_cast<uint64_t>(value));
}

void PickleWriter::real(double value) {
  add('G');
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>((bits >> (8 * i)) & 0xff);  // this one is big-endian
}

void PickleWriter::text(std::string_view value) {
  add('X');
  check(value.size() <= std::numeric_limits<uint32_t>::max(), "a pickled text fits its length field");
  add_bytes(static_cast<uint32_t>(value.size()));
  out_ += value;
}

void PickleWriter::bytes(std::string_view value) {
  check(value.size() <= 255, "short bytes");
  add('C');
  out_ += static_cast<char>(value.size());
  out_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  add('c');
  out_ += module;
  out_ += '\n';
  out_ += name;
  out_ += '\n';
}

std::string PickleWriter::finish() {
  add('.');
  return std::move(out_);
}

}  // namespace exeunt
