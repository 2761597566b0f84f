// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tf_table.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/base/protobuf.h"
#include "exeunt/model/bytes.h"
#include "lab/tensorflow/crc32c.h"

namespace exeunt {
namespace {

constexpr size_t kFooterSize = 48;
constexpr uint64_t kFooterMagic = 0xdb4775248b80fb57;
constexpr size_t kTrailerSize = 5;  // of a block: a byte for the compression, four for the checksum
constexpr size_t kMaxKey = 1024;
constexpr size_t kMaxUnpacked = size_t{8} << 20;

struct Handle {
  uint64_t offset, size;
};

Handle take_handle(std::span<const std::byte>& rest, std::string_view where) {
  const auto offset = take_varint(rest);
  const auto size = offset ? take_varint(rest) : std::nullopt;
  if (!size) throw_bad_file(where, kTableHint, "the place of a block is damaged");
  return {*offset, *size};
}

// A block's contents: a look into the file, or unpacked into memory of its own.
struct Block {
  std::span<const std::byte> bytes;
  std::vector<std::byte> unpacked;
};

struct Table {
  std::span<const std::byte> body;  // without the footer
  std::string_view where;
  CrcCheck crc;
};

Block read_block(const Table& table, Handle handle) {
  const std::string where = fmt::format("{}: block at byte {}", table.where, handle.offset);
  if (!range_fits(handle.offset, handle.size, table.body.size()) ||
      table.body.size() - handle.offset - handle.size < kTrailerSize)
    throw_bad_file(where, kTableHint, "its {} bytes do not fit in the file", handle.size);
  const auto whole = table.body.subspan(handle.offset, handle.size + kTrailerSize);
  const auto contents = whole.first(handle.size);
  if (table.crc == CrcCheck::verify &&
      masked_crc32c(whole.first(handle.size + 1)) != load_at<uint32_t>(whole, handle.size + 1))
    throw_bad_file(where, kTableHint, "its bytes do not match their CRC");

  const auto compression = static_cast<unsigned>(whole[handle.size]);
  if (compression == 0) return {.bytes = contents, .unpacked = {}};
  if (compression != 1) throw_bad_file(where, "got compression {}, want 0 (none) or 1 (Snappy)", compression);
  auto unpacked = unpack_snappy(contents, kMaxUnpacked);
  if (!unpacked) throw_bad_file(where, kTableHint, "its Snappy data are damaged");
  Block block{.bytes = {}, .unpacked = std::move(*unpacked)};
  block.bytes = block.unpacked;
  return block;
}

// Walks over one block: entries, then the places where a key is written in full, then how many of those there are.
class BlockReader {
 public:
  BlockReader(std::span<const std::byte> block, std::string where) : where_(std::move(where)) {
    const uint64_t count = block.size() < 4 ? 0 : load_at<uint32_t>(block, block.size() - 4);
    if (count == 0 || count > block.size() / 4 - 1) fail("got {} restarts in {} bytes", count, block.size());
    entries_ = rest_ = block.first(block.size() - 4 - 4 * count);
    restarts_ = block.subspan(entries_.size(), 4 * count);
    if (load_at<uint32_t>(restarts_, 0) != 0) fail("its first key is not written in full");
  }

  // False at the end of the block.
  bool next() {
    const size_t place = entries_.size() - rest_.size();
    if (rest_.empty()) {
      if (place > 0 && !restarts_.empty()) fail("a restart lies behind the last entry");
      return false;
    }
    const auto shared = take_varint(rest_), added = take_varint(rest_), size = take_varint(rest_);
    if (!shared || !added || !size || *shared > key_.size() || *added > kMaxKey || *shared + *added > kMaxKey ||
        *added > rest_.size() || *size > rest_.size() - *added)
      fail("the entry at byte {} of it is damaged", place);
    if (!restarts_.empty() && load_at<uint32_t>(restarts_, 0) == place) {
      if (*shared != 0) fail("the key at byte {} of it is not written in full", place);
      restarts_ = restarts_.subspan(4);
    }
    key_.resize(*shared);
    key_ += text_of(rest_.first(*added));
    value_ = rest_.subspan(*added, *size);
    rest_ = rest_.subspan(*added + *size);
    return true;
  }

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  [[nodiscard]] std::span<const std::byte> value() const noexcept { return value_; }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw_bad_file(where_, kTableHint, text, std::forward<Args>(args)...);
  }

  std::string where_, key_;
  std::span<const std::byte> entries_, rest_, restarts_, value_;
};

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

void for_each_in_table(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc,
                       const TableVisit& visit) {
  if (bytes.size() < kFooterSize || load_at<uint64_t>(bytes, bytes.size() - 8) != kFooterMagic)
    throw_bad_file(where, kTableHint, "no TensorFlow index ends here: it is truncated or another kind of file");
  const Table table{.body = bytes.first(bytes.size() - kFooterSize), .where = where, .crc = crc};
  auto footer = bytes.subspan(table.body.size(), kFooterSize - 8);
  (void)read_block(table, take_handle(footer, where));  // of filters and the like, which are not needed
  const Handle index_place = take_handle(footer, where);
  const Block index = read_block(table, index_place);

  std::string last_key;
  bool first = true;
  uint64_t reached = 0;
  for (BlockReader list(index.bytes, fmt::format("{}: list of blocks", where)); list.next();) {
    auto place = list.value();
    const Handle handle = take_handle(place, where);
    // Blocks follow each other. A list that leads back would make a small file a long one.
    if (handle.offset < reached)
      throw_bad_file(where, kTableHint, "the block at byte {} overlaps the one before it", handle.offset);
    const Block block = read_block(table, handle);
    reached = handle.offset + handle.size + kTrailerSize;
    for (BlockReader entry(block.bytes, fmt::format("{}: block at byte {}", where, handle.offset)); entry.next();) {
      if (!first && entry.key() <= last_key)
        throw_bad_file(where, kTableHint, "key '{}' is not behind '{}'", printable(entry.key()), printable(last_key));
      if (entry.key() > list.key())
        throw_bad_file(where, kTableHint, "key '{}' is not in the block it should be in", printable(entry.key()));
      visit(entry.key(), entry.value());
      last_key = entry.key();
      first = false;
    }
  }
}

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
