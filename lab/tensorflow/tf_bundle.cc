// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tf_bundle.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/protobuf.h"
#include "exeunt/base/utf8.h"
#include "exeunt/model/bytes.h"
#include "lab/tensorflow/crc32c.h"

namespace exeunt {
namespace fs = std::filesystem;
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

namespace {

using Type = ProtoField::Type;

constexpr size_t kMaxEntries = 50'000, kMaxNames = size_t{8} << 20;  // tensors, and bytes of all their names
constexpr size_t kMaxTensorName = 512, kMaxSides = 8;
constexpr uint64_t kMaxShards = 99'999;  // five digits in the file names
constexpr int64_t kVersion = 1;          // of bundles, which this code knows
constexpr int64_t kText = 7;             // DT_STRING

std::optional<DType> dtype_of(int64_t tensorflow_type) {
  constexpr std::pair<int64_t, DType> kTypes[] = {
      {1, DType::f32}, {2, DType::f64}, {3, DType::i32},      {4, DType::u8},    {5, DType::i16},
      {6, DType::i8},  {9, DType::i64}, {10, DType::boolean}, {14, DType::bf16}, {19, DType::f16}};
  for (const auto& [number, type] : kTypes)
    if (number == tensorflow_type) return type;
  return std::nullopt;
}

// VersionDef: producer 1, min_consumer 2. A later writer may demand a later reader.
void check_version(const ProtoField& field, std::string_view where) {
  ProtoReader version(field.bytes, std::string(where));
  while (const auto part = version.next()) {
    if (part->number != 2) continue;
    version.expect(*part, Type::varint);
    if (part->integer() > kVersion)
      throw_bad_file(where, "got a bundle for readers of version {}, want {}", part->integer(), kVersion);
  }
}

// BundleHeaderProto: num_shards 1, endianness 2, version 3. Gives the number of shards.
uint32_t read_header(std::span<const std::byte> value, std::string_view file) {
  const std::string where = fmt::format("{}: header", file);
  uint64_t shards = 0;
  ProtoReader header(value, where);
  while (const auto field = header.next()) {
    if (field->number == 1) {
      header.expect(*field, Type::varint);
      shards = field->value;
    } else if (field->number == 2) {
      header.expect(*field, Type::varint);
      if (field->value != 0) throw_bad_file(where, "the checkpoint is big-endian, want little-endian");
    } else if (field->number == 3) {
      header.expect(*field, Type::bytes);
      check_version(*field, where);
    }
  }
  if (shards == 0 || shards > kMaxShards) throw_bad_file(where, "got {} shards, want 1 to {}", shards, kMaxShards);
  return static_cast<uint32_t>(shards);
}

// TensorShapeProto: dim 2 { size 1 }, unknown_rank 3.
std::vector<int64_t> read_shape(const ProtoField& field, std::string_view where) {
  std::vector<int64_t> shape;
  ProtoReader reader(field.bytes, std::string(where));
  while (const auto part = reader.next()) {
    if (part->number == 3) {
      reader.expect(*part, Type::varint);
      if (part->value != 0) throw_bad_file(where, "its shape is unknown");
    }
    if (part->number != 2) continue;
    reader.expect(*part, Type::bytes);
    int64_t side = 0;
    ProtoReader dimension(part->bytes, std::string(where));
    while (const auto inner = dimension.next()) {
      if (inner->number != 1) continue;
      dimension.expect(*inner, Type::varint);
      side = inner->integer();
    }
    if (side < 0) throw_bad_file(where, "got a side of {}, want 0 or more", side);
    if (shape.size() == kMaxSides) throw_bad_file(where, "got more than {} sides", kMaxSides);
    shape.push_back(side);
  }
  return shape;
}

// BundleEntryProto: dtype 1, shape 2, shard_id 3, offset 4, size 5, crc32c 6, slices 7. Nothing if it is text.
std::optional<TfEntry> read_entry(std::string_view name, std::span<const std::byte> value, uint32_t shards,
                                  std::string_view file) {
  const std::string where = fmt::format("{}: tensor '{}'", file, printable(name));
  TfEntry entry{.name = std::string(name), .shape = {}};
  int64_t type = 0;
  uint64_t shard = 0;
  ProtoReader reader(value, where);
  while (const auto field = reader.next()) {
    constexpr std::array kTypes{Type::varint, Type::bytes,   Type::varint, Type::varint,
                                Type::varint, Type::fixed32, Type::bytes};
    if (field->number > kTypes.size()) continue;
    reader.expect(*field, kTypes[field->number - 1]);
    if (field->number == 1) type = field->integer();
    if (field->number == 2) entry.shape = read_shape(*field, where);
    if (field->number == 3) shard = field->value;
    if (field->number == 4) entry.offset = field->value;
    if (field->number == 5) entry.size = field->value;
    if (field->number == 6) entry.masked_crc = static_cast<uint32_t>(field->value);
    if (field->number == 7)
      throw_bad_file(where, Hint{"save the model again without partitioned variables"}, "it is saved in slices");
  }
  if (type == kText) return std::nullopt;
  const auto dtype = dtype_of(type);
  if (!dtype) throw_bad_file(where, "got TensorFlow type {}, want numbers (1 to 6, 9, 10, 14 or 19)", type);
  entry.dtype = *dtype;
  if (shard >= shards) throw_bad_file(where, kTableHint, "got shard {} of {}", shard, shards);
  entry.shard = static_cast<uint32_t>(shard);
  const auto elements = checked_elements(entry.shape);
  const auto bytes = elements ? checked_mul(*elements, size_of(*dtype)) : std::nullopt;
  if (!bytes || *bytes != entry.size)
    throw_bad_file(where, kTableHint, "shape {} of {} does not take {} bytes", shape_text(entry.shape), name_of(*dtype),
                   entry.size);
  return entry;
}

// In each shard, tensors must not share bytes.
void check_overlap(const TfIndex& index, std::string_view where) {
  std::vector<const TfEntry*> order;
  for (const TfEntry& entry : index.entries) {
    if (entry.size > 0) order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const TfEntry* a, const TfEntry* b) {
    return std::pair(a->shard, a->offset) < std::pair(b->shard, b->offset);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const TfEntry& entry = *order[i];
    const auto end = checked_add(entry.offset, entry.size);
    const TfEntry* next = i + 1 < order.size() && order[i + 1]->shard == entry.shard ? order[i + 1] : nullptr;
    if (!end || (next != nullptr && next->offset < *end))
      throw_bad_file(where, kTableHint, "tensor '{}' overlaps what follows it", printable(entry.name));
  }
}

constexpr Hint kNameIt{"give the checkpoint's prefix, for example model.ckpt-best"};

// "x.data-00001-of-00002" → "x"; other names as they are.
std::string without_shard(std::string name) {
  constexpr size_t kTail = 20;  // ".data-00001-of-00002"
  if (name.size() <= kTail) return name;
  const std::string tail = name.substr(name.size() - kTail);
  const auto digits = [&](size_t from) { return tail.find_first_not_of("0123456789", from) >= from + 5; };
  const bool shard = tail.starts_with(".data-") && digits(6) && tail.substr(11, 4) == "-of-" && digits(15);
  return shard ? name.substr(0, name.size() - kTail) : name;
}

// The one .index file in a folder, or in the variables/ of a TF-Hub module.
fs::path prefix_in(const fs::path& folder) {
  std::set<fs::path> found;
  for (const fs::path& place : {folder, folder / "variables"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      if (entry.path().extension() == ".index") found.insert(entry.path());
    }
    if (!found.empty()) break;
  }
  if (found.empty()) throw_bad_file(folder.string(), "got no TensorFlow checkpoint, want a file *.index");
  if (found.size() > 1)
    throw_bad_file(folder.string(), kNameIt, "got {} checkpoints, {} and others, want one", found.size(),
                   found.begin()->filename().string());
  return fs::path(*found.begin()).replace_extension();
}

fs::path checkpoint_prefix(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return prefix_in(path);
  if (path.extension() == ".index" || path.extension() == ".meta") return fs::path(path).replace_extension();
  return path.parent_path() / without_shard(path.filename().string());
}

}  // namespace

bool is_optimizer_slot(std::string_view name) noexcept {
  if (name.find("/.OPTIMIZER_SLOT/") != name.npos || name.starts_with("optimizer/")) return true;
  if (const size_t object = name.find("/.ATTRIBUTES/"); object != name.npos) name = name.substr(0, object);
  const std::string_view last = name.substr(name.rfind('/') + 1);
  constexpr std::array<std::string_view, 5> kCounters{"global_step", "beta1_power", "beta2_power", "save_counter",
                                                      "learning_rate"};
  if (std::find(kCounters.begin(), kCounters.end(), last) != kCounters.end()) return true;
  // No weight of these models is called after an optimiser, so that the start of the word is enough.
  constexpr std::array<std::string_view, 6> kOptimizers{"adam", "lamb", "momentum", "rmsprop", "adagrad", "adafactor"};
  return std::any_of(kOptimizers.begin(), kOptimizers.end(), [&](std::string_view word) {
    return last.size() >= word.size() && std::equal(word.begin(), word.end(), last.begin(), [](char a, char b) {
             return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
           });
  });
}

TfIndex parse_tf_index(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc) {
  TfIndex index;
  size_t entries = 0, names = 0;
  for_each_in_table(bytes, where, crc, [&](std::string_view key, std::span<const std::byte> value) {
    // The header's key is empty, so it comes first.
    if (key.empty()) {
      index.shards = read_header(value, where);
      return;
    }
    if (index.shards == 0) throw_bad_file(where, kTableHint, "the table has no header: it is no checkpoint's index");
    names += key.size();
    if (++entries > kMaxEntries || names > kMaxNames)
      throw_bad_file(where, "got {} tensors with {} bytes of names, want at most {} and {}", entries, names,
                     kMaxEntries, kMaxNames);
    if (key.size() > kMaxTensorName || find_invalid_utf8(key) || key.find('\0') != key.npos)
      throw_bad_file(where, "tensor '{}': got a name of {} bytes, want UTF-8 of at most {}", printable(key), key.size(),
                     kMaxTensorName);
    if (auto entry = read_entry(key, value, index.shards, where)) index.entries.push_back(std::move(*entry));
  });
  if (index.shards == 0) throw_bad_file(where, kTableHint, "the table is empty: it is no checkpoint's index");
  check_overlap(index, where);
  return index;
}

TensorSet view_tf_tensors(const TfIndex& index, std::span<const TfShard> shards, CrcCheck crc) {
  check(shards.size() == index.shards, "as many shards as the index says");
  TensorSet set;
  for (const TfEntry& entry : index.entries) {
    if (is_optimizer_slot(entry.name)) continue;
    const TfShard& shard = shards[entry.shard];
    const std::string where = fmt::format("{}: tensor '{}'", shard.where, printable(entry.name));
    if (!range_fits(entry.offset, entry.size, shard.bytes.size()))
      throw_bad_file(where, kTableHint, "got a file of {} bytes, want {} from {} on: it is truncated",
                     shard.bytes.size(), entry.size, entry.offset);
    const auto bytes = shard.bytes.subspan(entry.offset, entry.size);
    if (crc == CrcCheck::verify && masked_crc32c(bytes) != entry.masked_crc)
      throw_bad_file(where, kTableHint, "its bytes do not match their CRC");
    set.tensors.emplace(entry.name,
                        TensorView{.dtype = entry.dtype, .shape = entry.shape, .strides = {}, .bytes = bytes});
  }
  return set;
}

TensorSet read_tf_checkpoint(const fs::path& path, const fs::path& folder) {
  const auto open = [&](const std::string& name) {
    return MappedFile::open(folder.empty() ? ReadPath(name)
                                           : ReadPath::in(folder, fs::path(name).lexically_relative(folder)));
  };
  const fs::path prefix = checkpoint_prefix(path);
  const std::string index_name = prefix.string() + ".index";
  std::error_code ignored;
  if (!path_exists(index_name) && fs::is_regular_file(prefix, ignored))
    throw_bad_file(prefix.string(), Hint{"convert it with tf.train.Saver(write_version=tf.train.SaverDef.V2)"},
                   "no {} beside it: it is a checkpoint of TensorFlow's version 1 or none at all",
                   fs::path(index_name).filename().string());
  const TfIndex index = parse_tf_index(open(index_name)->bytes(), index_name);

  // Shards that hold only what is left out need not be there.
  std::vector<TfShard> shards(index.shards);
  std::vector<std::shared_ptr<const void>> owners;
  for (const TfEntry& entry : index.entries) {
    TfShard& shard = shards[entry.shard];
    if (is_optimizer_slot(entry.name) || !shard.where.empty()) continue;
    shard.where = fmt::format("{}.data-{:05}-of-{:05}", prefix.string(), entry.shard, index.shards);
    const auto file = open(shard.where);
    shard.bytes = file->bytes();
    owners.push_back(file);
  }
  TensorSet set = view_tf_tensors(index, shards);
  set.owners = std::move(owners);
  for (const TfShard& shard : shards) {
    if (!shard.bytes.empty()) set.mapped.push_back(shard.bytes);
  }
  return set;
}

}  // namespace exeunt
