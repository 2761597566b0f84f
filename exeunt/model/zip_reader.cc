// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/zip_reader.h"

#include <algorithm>
#include <optional>

#include "exeunt/base/checked.h"
#include "exeunt/base/utf8.h"
#include "exeunt/model/bytes.h"

namespace exeunt {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint32_t kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50, kDescriptorMark = 0x08074b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr uint16_t kHasDescriptor = 0x0008, kUtf8Name = 0x0800;  // the only flags that stored entries need
constexpr uint16_t kEncrypted = 0x2041;                          // plain, strong, and of the directory itself
constexpr uint64_t kMaxZipEntries = 100'000;
constexpr size_t kMaxEntryName = 512;

struct Directory {
  uint64_t offset, size, count;
};

// What the directory says about an entry, and where its bytes turn out to lie.
struct Record {
  std::string_view name;
  uint64_t header = 0, size = 0, begin = 0;
  uint32_t crc = 0;
  uint16_t flags = 0;
};

std::string entry_place(std::string_view file, std::string_view name) {
  return fmt::format("{}: entry '{}'", file, printable(name));
}

// The archive ends with the record of its directory: no comment, nothing behind it.
Directory find_directory(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.size() < kEndSize) throw_bad_file(where, kZipHint, "got {} bytes: no zip archive", bytes.size());
  const size_t end = bytes.size() - kEndSize;
  if (load_at<uint32_t>(bytes, end) != kEndMark || load_at<uint16_t>(bytes, end + 20) != 0)
    throw_bad_file(where, kZipHint,
                   "the zip archive does not end with its directory: it is truncated or has trailing bytes");

  Directory directory{.offset = load_at<uint32_t>(bytes, end + 16),
                      .size = load_at<uint32_t>(bytes, end + 12),
                      .count = load_at<uint16_t>(bytes, end + 10)};
  const auto disk = load_at<uint16_t>(bytes, end + 4), first_disk = load_at<uint16_t>(bytes, end + 6);
  bool in_parts = (disk != 0 && disk != 0xffff) || (first_disk != 0 && first_disk != 0xffff);
  uint64_t count_here = load_at<uint16_t>(bytes, end + 8);
  size_t tail = end;
  if (end >= kLocatorSize && load_at<uint32_t>(bytes, end - kLocatorSize) == kLocatorMark) {
    const size_t locator = end - kLocatorSize;
    tail = locator - std::min(locator, kEnd64Size);
    if (load_at<uint64_t>(bytes, locator + 8) != tail || locator < kEnd64Size ||
        load_at<uint32_t>(bytes, tail) != kEnd64Mark || load_at<uint64_t>(bytes, tail + 4) != kEnd64Size - 12)
      throw_bad_file(where, "the zip64 record is not where its locator says");
    const Directory wide{.offset = load_at<uint64_t>(bytes, tail + 48),
                         .size = load_at<uint64_t>(bytes, tail + 40),
                         .count = load_at<uint64_t>(bytes, tail + 32)};
    const bool agree = (directory.offset == wide.offset || directory.offset == 0xffffffff) &&
                       (directory.size == wide.size || directory.size == 0xffffffff) &&
                       (directory.count == wide.count || directory.count == 0xffff);
    if (!agree) throw_bad_file(where, "the zip and zip64 records of the directory disagree");
    directory = wide;
    count_here = load_at<uint64_t>(bytes, tail + 24);
    in_parts = in_parts || load_at<uint32_t>(bytes, tail + 16) != 0 || load_at<uint32_t>(bytes, tail + 20) != 0;
  }
  if (in_parts || count_here != directory.count) throw_bad_file(where, "the zip archive is split in parts");
  if (!range_fits(directory.offset, directory.size, tail) || directory.offset + directory.size != tail)
    throw_bad_file(where, kZipHint, "got a zip directory of {} bytes at {}, want it to end at {}", directory.size,
                   directory.offset, tail);
  if (directory.count > kMaxZipEntries || directory.count > directory.size / kCentralSize)
    throw_bad_file(where, "got {} entries in a zip directory of {} bytes", directory.count, directory.size);
  return directory;
}

// The zip64 part of an entry's extra fields, if there is one.
std::optional<std::span<const std::byte>> find_wide(std::span<const std::byte> extra, std::string_view where) {
  std::optional<std::span<const std::byte>> wide;
  while (!extra.empty()) {
    if (extra.size() < 4 || load_at<uint16_t>(extra, 2) > extra.size() - 4)
      throw_bad_file(where, "its extra fields are truncated");
    const size_t size = load_at<uint16_t>(extra, 2);
    if (load_at<uint16_t>(extra, 0) == 1) {
      if (wide) throw_bad_file(where, "it has two zip64 fields");
      wide = extra.subspan(4, size);
    }
    extra = extra.subspan(4 + size);
  }
  return wide;
}

// Sizes and places of 4 GiB and more stand in the zip64 part, in order, only those that do not fit.
uint64_t widen(uint32_t narrow, std::optional<std::span<const std::byte>>& wide, std::string_view where) {
  if (narrow != 0xffffffff) return narrow;
  if (!wide || wide->size() < 8) throw_bad_file(where, "its zip64 sizes are missing");
  const auto value = load_at<uint64_t>(*wide, 0);
  wide = wide->subspan(8);
  return value;
}

void check_name(std::string_view name, std::string_view where) {
  if (name.empty() || name.size() > kMaxEntryName)
    throw_bad_file(where, "got an entry name of {} bytes, want 1 to {}", name.size(), kMaxEntryName);
  if (find_invalid_utf8(name) || name.find('\0') != name.npos || name.find('\\') != name.npos)
    throw_bad_file(where, "an entry name holds a NUL, a backslash or broken UTF-8");
}

// Takes one entry off the directory.
Record take_record(std::span<const std::byte>& rest, std::string_view file) {
  if (rest.size() < kCentralSize || load_at<uint32_t>(rest, 0) != kCentralMark)
    throw_bad_file(file, kZipHint, "the zip directory is truncated or damaged");
  const size_t name_size = load_at<uint16_t>(rest, 28), extra_size = load_at<uint16_t>(rest, 30);
  const size_t whole = kCentralSize + name_size + extra_size + load_at<uint16_t>(rest, 32);
  if (rest.size() < whole) throw_bad_file(file, kZipHint, "the zip directory is truncated or damaged");

  Record record;
  record.name = text_of(rest.subspan(kCentralSize, name_size));
  check_name(record.name, file);
  const std::string where = entry_place(file, record.name);
  record.flags = load_at<uint16_t>(rest, 8);
  record.crc = load_at<uint32_t>(rest, 16);
  if ((record.flags & kEncrypted) != 0) throw_bad_file(where, "it is encrypted");
  if ((record.flags & ~(kHasDescriptor | kUtf8Name)) != 0)
    throw_bad_file(where, "got zip flags {:#06x}, want a plain entry", record.flags);
  if (const auto method = load_at<uint16_t>(rest, 10); method != 0)
    throw_bad_file(where, "it is compressed (method {}), want it stored", method);

  auto wide = find_wide(rest.subspan(kCentralSize + name_size, extra_size), where);
  record.size = widen(load_at<uint32_t>(rest, 24), wide, where);
  const uint64_t packed = widen(load_at<uint32_t>(rest, 20), wide, where);
  record.header = widen(load_at<uint32_t>(rest, 42), wide, where);
  if (packed != record.size) throw_bad_file(where, "it is stored, but takes {} bytes for {}", packed, record.size);
  if (load_at<uint16_t>(rest, 34) != 0) throw_bad_file(where, "it lies in another part of the archive");
  rest = rest.subspan(whole);
  return record;
}

// The entry's own header must say what the directory says; where a descriptor follows, it may leave the numbers out.
void check_local(std::span<const std::byte> body, Record& record, std::string_view where) {
  if (!range_fits(record.header, kLocalSize, body.size()) || load_at<uint32_t>(body, record.header) != kLocalMark)
    throw_bad_file(where, kZipHint, "no entry starts at byte {}", record.header);
  const auto local = body.subspan(record.header);
  const size_t name_size = load_at<uint16_t>(local, 26), extra_size = load_at<uint16_t>(local, 28);
  const size_t header_size = kLocalSize + name_size + extra_size;
  if (!range_fits(header_size, record.size, local.size()))
    throw_bad_file(where, kZipHint, "its {} bytes do not fit in the file", record.size);
  record.begin = record.header + header_size;

  auto wide = find_wide(local.subspan(kLocalSize + name_size, extra_size), where);
  const auto crc = load_at<uint32_t>(local, 14);
  const uint64_t size = widen(load_at<uint32_t>(local, 22), wide, where);
  const uint64_t packed = widen(load_at<uint32_t>(local, 18), wide, where);
  const bool later = (record.flags & kHasDescriptor) != 0;
  const bool agree = text_of(local.subspan(kLocalSize, name_size)) == record.name &&
                     load_at<uint16_t>(local, 6) == record.flags && load_at<uint16_t>(local, 8) == 0 &&
                     (crc == record.crc || (later && crc == 0)) && (size == record.size || (later && size == 0)) &&
                     (packed == record.size || (later && packed == 0));
  if (!agree) throw_bad_file(where, "its own header and the zip directory disagree");
}

// Between an entry's bytes and `next`, the start of what follows, lies its descriptor or nothing.
void check_tail(std::span<const std::byte> body, const Record& record, uint64_t next, std::string_view where) {
  const uint64_t end = record.begin + record.size;
  if (end > next) throw_bad_file(where, "it overlaps what follows at byte {}", next);
  const uint64_t tail = next - end;
  if ((record.flags & kHasDescriptor) == 0) {
    if (tail != 0) throw_bad_file(where, "{} bytes behind it belong to no entry", tail);
    return;
  }
  if (tail != 16 && tail != 24) throw_bad_file(where, "got {} bytes behind it, want a descriptor", tail);
  const auto descriptor = body.subspan(end, tail);
  const bool narrow = tail == 16;
  const uint64_t packed = narrow ? load_at<uint32_t>(descriptor, 8) : load_at<uint64_t>(descriptor, 8);
  const uint64_t size = narrow ? load_at<uint32_t>(descriptor, 12) : load_at<uint64_t>(descriptor, 16);
  if (load_at<uint32_t>(descriptor, 0) != kDescriptorMark || load_at<uint32_t>(descriptor, 4) != record.crc ||
      packed != record.size || size != record.size)
    throw_bad_file(where, "its descriptor and the zip directory disagree");
}

// In order of place, entries must fill the archive from its first byte to the directory; no name may stand twice.
void check_layout(std::span<const std::byte> body, std::vector<Record> records, std::string_view file) {
  std::ranges::sort(records, [](const Record& a, const Record& b) { return a.name < b.name; });
  const auto twin =
      std::ranges::adjacent_find(records, [](const Record& a, const Record& b) { return a.name == b.name; });
  if (twin != records.end()) throw_bad_file(entry_place(file, twin->name), "it appears twice in the zip directory");

  std::ranges::sort(records, [](const Record& a, const Record& b) { return a.header < b.header; });
  if (!records.empty() && records.front().header != 0)
    throw_bad_file(file, "the first {} bytes belong to no entry", records.front().header);
  for (size_t i = 0; i < records.size(); ++i) {
    const uint64_t next = i + 1 < records.size() ? records[i + 1].header : body.size();
    check_tail(body, records[i], next, entry_place(file, records[i].name));
  }
}

std::vector<ZipEntry> read_entries(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc) {
  const Directory directory = find_directory(bytes, where);
  const auto body = bytes.first(directory.offset);
  auto rest = bytes.subspan(directory.offset, directory.size);
  std::vector<Record> records;
  records.reserve(directory.count);
  for (uint64_t i = 0; i < directory.count; ++i) {
    records.push_back(take_record(rest, where));
    check_local(body, records.back(), entry_place(where, records.back().name));
  }
  if (!rest.empty()) throw_bad_file(where, "got {} bytes behind the last entry of the directory", rest.size());
  check_layout(body, records, where);

  std::vector<ZipEntry> entries;
  entries.reserve(records.size());
  for (const Record& record : records) {
    const auto data = body.subspan(record.begin, record.size);
    // PyTorch writes 0 where it was set not to compute checksums.
    if (crc == CrcCheck::verify && record.crc != 0 && crc32(data) != record.crc)
      throw_bad_file(entry_place(where, record.name), kZipHint, "its bytes do not match their CRC");
    entries.push_back({record.name, data});
  }
  return entries;
}

}  // namespace

std::vector<ZipEntry> parse_zip(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc) {
  return with_hint("re-save it with torch.save or, better, with safetensors",
                   [&] { return read_entries(bytes, where, crc); });
}

}  // namespace exeunt
