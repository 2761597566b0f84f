// SPDX-License-Identifier: Apache-2.0
// What zlib does: gzip, so that data need not be unpacked first, and the checksum of zip archives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct z_stream_s;  // zlib's

namespace exeunt {

// Unpacks a stream piece by piece, any number of members behind each other.
class GzipReader {
 public:
  // Fills a buffer with packed bytes and returns how many; 0 at the end.
  using Source = std::function<size_t(std::span<char>)>;

  // `where` prefixes every error.
  GzipReader(Source source, std::string where);

  // Fills `out` and returns how many bytes there were: less than it has room for only at the end, then 0. Throws Error
  // bad_file for a damaged or cut file; the checksum is verified where a member ends.
  [[nodiscard]] size_t read(std::span<char> out);

 private:
  [[noreturn]] void refuse(int status) const;

  Source source_;
  std::string where_;
  std::array<char, 1 << 16> packed_{};
  std::unique_ptr<z_stream_s, void (*)(z_stream_s*)> zlib_;
  bool first_ = true, in_member_ = false;
};

// Readers verify checksums. Only fuzzers skip them, because they would never guess one.
enum class CrcCheck { verify, skip };
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes) noexcept;  // CRC-32

// Unpacks bytes that are in memory and stay there: fills a buffer as GzipReader::read() does, and throws Error bad_file
// also where more than `limit` bytes come out.
[[nodiscard]] std::function<size_t(std::span<char>)> unpacking(std::string_view packed, const std::string& where,
                                                               uint64_t limit);

}  // namespace exeunt
