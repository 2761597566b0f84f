// SPDX-License-Identifier: Apache-2.0
// Writes zip archives the way PyTorch does, and, where a test asks for it, wrongly.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/gunzip.h"

namespace exeunt {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// `value` as `bytes` little-endian bytes.
inline std::string little(uint64_t value, size_t bytes) {
  std::string out(bytes, '\0');
  std::memcpy(out.data(), &value, bytes);
  return out;
}

struct ZipPart {
  std::string name = {}, data = {};
  uint16_t flags = 0x0808, method = 0;
  // What one place says differently from the rest.
  std::optional<std::string> local_name = {};
  std::optional<uint16_t> local_flags = {}, local_method = {};
  std::optional<uint32_t> crc = {}, local_crc = {}, local_size = {}, descriptor_size = {}, packed_size = {};
  std::optional<uint64_t> header = {}, size = {};
  std::string before = {};    // bytes in front of the entry
  std::string extra = {};     // more extra fields of the directory
  bool wide = false;          // sizes and place in a zip64 field
  uint64_t header_shift = 0;  // added to the place in the directory
};

struct ZipStyle {
  bool zip64 = true;                                // PyTorch always writes the zip64 record
  std::string comment = {};                         // behind the end
  std::optional<uint64_t> count = {}, offset = {};  // told by the end records
  std::optional<uint64_t> locator = {}, narrow_count = {};
  uint16_t disk = 0;
  std::string directory_tail = {};
};

inline std::string build_zip(const std::vector<ZipPart>& parts, const ZipStyle& style = {}) {
  std::string out, directory;
  for (const ZipPart& part : parts) {
    out += part.before;
    const uint64_t header = part.header.value_or(out.size()) + part.header_shift;
    const uint64_t size = part.size.value_or(part.data.size());
    const uint32_t crc = part.crc.value_or(crc32(bytes_of(part.data)));
    const bool later = (part.flags & 8) != 0;
    const uint32_t told = later ? 0 : static_cast<uint32_t>(size);
    const std::string& local_name = part.local_name ? *part.local_name : part.name;
    const size_t padding = (64 - (out.size() + 30 + local_name.size() + 4) % 64) % 64;
    out += little(0x04034b50, 4) + little(0, 2) + little(part.local_flags.value_or(part.flags), 2) +
           little(part.local_method.value_or(part.method), 2) + little(0, 4) +
           little(part.local_crc.value_or(later ? 0 : crc), 4) + little(told, 4) +
           little(part.local_size.value_or(told), 4) + little(local_name.size(), 2) + little(4 + padding, 2) +
           local_name + "FB" + little(padding, 2) + std::string(padding, 'Z') + part.data;
    if (later) {
      out += little(0x08074b50, 4) + little(crc, 4);
      const uint32_t end_size = part.descriptor_size.value_or(static_cast<uint32_t>(size));
      const size_t width = part.wide ? 8 : 4;
      out += little(end_size, width) + little(size, width);
    }
    const std::string extra =
        (part.wide ? little(1, 2) + little(24, 2) + little(size, 8) + little(size, 8) + little(header, 8) : "") +
        part.extra;
    const uint64_t narrow = part.wide ? 0xffffffff : size;
    directory += little(0x02014b50, 4) + little(0, 4) + little(part.flags, 2) + little(part.method, 2) + little(0, 4) +
                 little(crc, 4) + little(part.packed_size ? *part.packed_size : narrow, 4) + little(narrow, 4) +
                 little(part.name.size(), 2) + little(extra.size(), 2) + little(0, 2) + little(0, 8) +
                 little(part.wide ? 0xffffffff : header, 4) + part.name + extra;
  }
  const uint64_t offset = style.offset.value_or(out.size()), count = style.count.value_or(parts.size());
  directory += style.directory_tail;
  out += directory;
  if (style.zip64) {
    const uint64_t place = style.locator.value_or(out.size());
    out += little(0x06064b50, 4) + little(44, 8) + little(0, 4) + little(style.disk, 4) + little(0, 4) +
           little(count, 8) + little(count, 8) + little(directory.size(), 8) + little(offset, 8);
    out += little(0x07064b50, 4) + little(0, 4) + little(place, 8) + little(1, 4);
  }
  const uint64_t narrow_count = style.narrow_count.value_or(count);
  return out + little(0x06054b50, 4) + little(style.disk, 2) + little(0, 2) + little(narrow_count, 2) +
         little(narrow_count, 2) + little(directory.size(), 4) + little(offset, 4) + little(style.comment.size(), 2) +
         style.comment;
}

}  // namespace exeunt
