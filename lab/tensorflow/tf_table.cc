// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tf_table.h"

#include <cstdint>
#include <optional>
#include <string>

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

struct Handle {
  uint64_t offset, size;
};

Handle take_handle(std::span<const std::byte>& rest, std::string_view where) {
  const auto offset = take_varint(rest);
  const auto size = offset ? take_varint(rest) : std::nullopt;
  if (!size) throw_bad_file(where, kTableHint, "the place of a block is damaged");
  return {*offset, *size};
}

struct Table {
  std::span<const std::byte> body;  // without the footer
  std::string_view where;
  CrcCheck crc;
};

std::span<const std::byte> read_block(const Table& table, Handle handle) {
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
  // Nor does TensorFlow itself write such a checkpoint.
  if (compression != 0) throw_bad_file(where, "got a compressed block (kind {}), want none", compression);
  return contents;
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

}  // namespace

void for_each_in_table(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc,
                       const TableVisit& visit) {
  if (bytes.size() < kFooterSize || load_at<uint64_t>(bytes, bytes.size() - 8) != kFooterMagic)
    throw_bad_file(where, kTableHint, "no TensorFlow index ends here: it is truncated or another kind of file");
  const Table table{.body = bytes.first(bytes.size() - kFooterSize), .where = where, .crc = crc};
  auto footer = bytes.subspan(table.body.size(), kFooterSize - 8);
  (void)read_block(table, take_handle(footer, where));  // of filters and the like, which are not needed
  const Handle index_place = take_handle(footer, where);
  const auto index = read_block(table, index_place);

  std::string last_key;
  bool first = true;
  uint64_t reached = 0;
  for (BlockReader list(index, fmt::format("{}: list of blocks", where)); list.next();) {
    auto place = list.value();
    const Handle handle = take_handle(place, where);
    // Blocks follow each other. A list that leads back would make a small file a long one.
    if (handle.offset < reached)
      throw_bad_file(where, kTableHint, "the block at byte {} overlaps the one before it", handle.offset);
    const auto block = read_block(table, handle);
    reached = handle.offset + handle.size + kTrailerSize;
    for (BlockReader entry(block, fmt::format("{}: block at byte {}", where, handle.offset)); entry.next();) {
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

}  // namespace exeunt
