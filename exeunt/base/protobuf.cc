// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/protobuf.h"

#include <bit>
#include <cstring>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

std::string_view name_of(ProtoField::Type type) noexcept {
  switch (type) {
    case ProtoField::Type::varint:
      return "a varint";
    case ProtoField::Type::fixed64:
      return "8 fixed bytes";
    case ProtoField::Type::bytes:
      return "counted bytes";
    case ProtoField::Type::fixed32:
      return "4 fixed bytes";
  }
  return "?";
}

}  // namespace

std::optional<uint64_t> take_varint(std::span<const std::byte>& rest) noexcept {
  uint64_t value = 0;
  for (size_t i = 0; i < rest.size() && i < 10; ++i) {
    const auto byte = static_cast<uint64_t>(rest[i]);
    if (i == 9 && byte > 1) return std::nullopt;  // the tenth byte has room for one bit
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      rest = rest.subspan(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

float ProtoField::real() const noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(value));
}

std::optional<ProtoField> ProtoReader::next() {
  if (rest_.empty()) return std::nullopt;
  const size_t place = size_ - rest_.size();
  const auto cut = [&]() { throw_bad_file(where_, "the protocol buffer is malformed or truncated at byte {}", place); };
  const auto tag = take_varint(rest_);
  if (!tag || (*tag >> 3) == 0 || (*tag >> 3) > 0x1fffffff) cut();

  ProtoField field{.number = static_cast<uint32_t>(*tag >> 3), .type = ProtoField::Type(*tag & 7), .bytes = {}};
  size_t width = 4;
  switch (field.type) {
    case ProtoField::Type::varint: {
      const auto value = take_varint(rest_);
      if (!value) cut();
      field.value = *value;
      return field;
    }
    case ProtoField::Type::bytes: {
      const auto length = take_varint(rest_);
      if (!length || *length > rest_.size()) cut();
      field.bytes = rest_.first(*length);
      rest_ = rest_.subspan(*length);
      return field;
    }
    case ProtoField::Type::fixed64:
      width = 8;
      [[fallthrough]];
    case ProtoField::Type::fixed32:
      if (rest_.size() < width) cut();
      std::memcpy(&field.value, rest_.data(), width);
      rest_ = rest_.subspan(width);
      return field;
  }
  throw_bad_file(where_, "got wire type {} at byte {}, want 0, 1, 2 or 5", *tag & 7, place);
}

void ProtoReader::expect(const ProtoField& field, ProtoField::Type type) const {
  if (field.type == type) return;
  throw_bad_file(where_, "field {}: got {}, want {}", field.number, name_of(field.type), name_of(type));
}

void ProtoWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(0x80 | (value & 0x7f));
  out_ += static_cast<char>(value);
}

void ProtoWriter::integer(uint32_t number, int64_t value) {
  varint(uint64_t{number} << 3);
  varint(static_cast<uint64_t>(value));
}

void ProtoWriter::real(uint32_t number, float value) {
  varint(uint64_t{number} << 3 | 5);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out_ += static_cast<char>(bits >> shift & 0xff);
}

void ProtoWriter::bytes(uint32_t number, std::string_view content) {
  varint(uint64_t{number} << 3 | 2);
  varint(content.size());
  out_ += content;
}

}  // namespace exeunt
