// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "exeunt/base/protobuf.h"
#include "exeunt/model/tf_table.h"

namespace exeunt {
namespace {

// A little-endian number of `bytes` bytes off the front of `rest`.
std::optional<size_t> take_number(std::span<const std::byte>& rest, size_t bytes) {
  if (rest.size() < bytes) return std::nullopt;
  size_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<size_t>(rest[i]) << (8 * i);
  rest = rest.subspan(bytes);
  return value;
}

// One step of the format: bytes as they are, or bytes that came before. False if it is broken.
bool unpack_step(std::span<const std::byte>& rest, std::vector<std::byte>& out, size_t total) {
  const auto tag = static_cast<size_t>(rest.front());
  rest = rest.subspan(1);
  size_t length = (tag >> 2) + 1;
  std::optional<size_t> offset;
  switch (tag & 3) {
    case 0: {
      if (length > 60) {  // 60 to 63 say how many bytes hold the length
        const auto longer = take_number(rest, length - 60);
        if (!longer) return false;
        length = *longer + 1;
      }
      if (length > rest.size() || length > total - out.size()) return false;
      out.insert(out.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(length));
      rest = rest.subspan(length);
      return true;
    }
    case 1:
      length = ((tag >> 2) & 7) + 4;
      offset = take_number(rest, 1);
      if (offset) *offset |= (tag >> 5) << 8;
      break;
    case 2:
      offset = take_number(rest, 2);
      break;
    default:
      offset = take_number(rest, 4);
  }
  if (!offset || *offset == 0 || *offset > out.size() || length > total - out.size()) return false;
  for (size_t i = 0; i < length; ++i) out.push_back(out[out.size() - *offset]);  // may overlap what it writes
  return true;
}

}  // namespace

std::optional<std::vector<std::byte>> unpack_snappy(std::span<const std::byte> packed, size_t limit) {
  const auto total = take_varint(packed);
  // Three bytes become 64 at the most, so a larger promise is a lie.
  if (!total || *total > limit || *total / 22 > packed.size()) return std::nullopt;
  std::vector<std::byte> out;
  out.reserve(*total);
  while (!packed.empty()) {
    if (!unpack_step(packed, out, *total)) return std::nullopt;
  }
  if (out.size() != *total) return std::nullopt;
  return out;
}

}  // namespace exeunt
