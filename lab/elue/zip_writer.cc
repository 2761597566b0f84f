// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/zip_writer.h"

#include <cstdint>

#include "exeunt/base/crc.h"
#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr uint64_t kVersion = 10;      // the first version: stored files
constexpr uint64_t kFirstDate = 0x21;  // 1 January 1980 as DOS wrote dates

// Little-endian numbers of the given width.
void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(static_cast<uint8_t>(value >> (8 * i))));
}

// The fields shared by a file's header and its directory entry.
void put_description(std::string& out, const StoredFile& file) {
  put(out, kVersion, 2);
  put(out, 0, 2);  // no flags
  put(out, 0, 2);  // stored
  put(out, 0, 2);  // midnight
  put(out, kFirstDate, 2);
  put(out, crc32(std::as_bytes(std::span(file.content))), 4);
  put(out, file.content.size(), 4);  // as stored
  put(out, file.content.size(), 4);  // as it was
  put(out, file.name.size(), 2);
  put(out, 0, 2);  // no extra field
}

}  // namespace

std::string zip_stored(std::span<const StoredFile> files) {
  constexpr uint64_t kLimit = 0xFFFFFFFFU;  // larger files need zip64
  std::string out, directory;
  check(files.size() < 0xFFFFU, "a small archive");
  for (const StoredFile& file : files) {
    check(out.size() + file.content.size() + file.name.size() < kLimit - 1024, "an archive under 4 GiB");
    const uint64_t offset = out.size();
    put(out, 0x04034B50, 4);
    put_description(out, file);
    out += file.name;
    out += file.content;
    put(directory, 0x02014B50, 4);
    put(directory, kVersion, 2);  // written by
    put_description(directory, file);
    put(directory, 0, 2);  // no comment
    put(directory, 0, 2);  // first disk
    put(directory, 0, 2);  // no internal attributes
    put(directory, 0, 4);  // no external attributes
    put(directory, offset, 4);
    directory += file.name;
  }
  const uint64_t directory_offset = out.size();
  out += directory;
  put(out, 0x06054B50, 4);
  put(out, 0, 4);  // this disk, directory's disk
  put(out, files.size(), 2);
  put(out, files.size(), 2);
  put(out, directory.size(), 4);
  put(out, directory_offset, 4);
  put(out, 0, 2);  // no comment
  return out;
}

}  // namespace exeunt
