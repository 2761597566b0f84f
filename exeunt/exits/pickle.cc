// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/pickle.h"

#include <bit>
#include <limits>

#include "exeunt/base/error.h"

namespace exeunt {

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
