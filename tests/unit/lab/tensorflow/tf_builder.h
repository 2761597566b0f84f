// SPDX-License-Identifier: Apache-2.0
// Tables and entries of TensorFlow checkpoints, put together for tests that need wrong ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/tensorflow/crc32c.h"
#include "tests/unit/model/zip_builder.h"

namespace exeunt::tf {

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}
inline std::string number(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}
inline std::string message(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}

inline std::string header(uint64_t shards = 1) {
  return number(1, shards) + message(3, number(1, 1));
}

struct EntryText {
  uint64_t type = 1;
  std::vector<uint64_t> shape = {2, 3};
  uint64_t shard = 0, offset = 0, size = 24;
  uint32_t crc = 0;
  std::string more = {};
};
inline std::string entry(const EntryText& it = {}) {
  std::string shape;
  for (const uint64_t side : it.shape) shape += message(2, number(1, side));
  return number(1, it.type) + message(2, shape) + number(3, it.shard) + number(4, it.offset) + number(5, it.size) +
         "\x35" + little(it.crc, 4) + it.more;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// A block whose keys are all written in full, with one restart.
inline std::string block(const Pairs& pairs) {
  std::string out;
  for (const auto& [key, value] : pairs) out += varint(0) + varint(key.size()) + varint(value.size()) + key + value;
  return out + little(0, 4) + little(1, 4);
}

inline std::string with_trailer(const std::string& contents, char kind = 0) {
  const std::string whole = contents + kind;
  return whole + little(masked_crc32c(bytes_of(whole)), 4);
}

inline std::string handle(uint64_t offset, uint64_t size) {
  return varint(offset) + varint(size);
}

inline std::string footer(const std::string& handles) {
  std::string padded = handles;
  padded.resize(40);
  return padded + little(0xdb4775248b80fb57, 8);
}

// A table of the blocks given; `index` replaces the entries that list them.
struct TableText {
  std::vector<std::string> blocks;
  char kind = 0;
  std::optional<Pairs> index = {};
  std::optional<std::string> handles = {};
};
inline std::string table(const TableText& it) {
  std::string out;
  Pairs places;
  for (const std::string& contents : it.blocks) {
    places.emplace_back("\x7f" + std::to_string(places.size()), handle(out.size(), contents.size()));
    out += with_trailer(contents, it.kind);
  }
  const std::string empty = block({}), list = block(it.index.value_or(places));
  const std::string meta_place = handle(out.size(), empty.size());
  out += with_trailer(empty);
  const std::string list_place = handle(out.size(), list.size());
  out += with_trailer(list);
  return out + footer(it.handles.value_or(meta_place + list_place));
}

}  // namespace exeunt::tf
