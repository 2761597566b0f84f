// SPDX-License-Identifier: Apache-2.0
// Reads gzip (RFC 1951 and 1952), so that data need not be unpacked first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  // Canonical Huffman codes: how many there are of each length, and the symbols in the order of their codes.
  struct Codes {
    std::array<uint16_t, 16> count{};
    std::vector<uint16_t> symbols;
  };

  [[noreturn]] void damaged(std::string_view what) const;
  [[nodiscard]] int next_byte();  // -1 at the end
  [[nodiscard]] uint32_t byte();
  [[nodiscard]] uint32_t bits(int count);
  [[nodiscard]] uint32_t number(int bytes);  // low byte first
  [[nodiscard]] bool begin_member();         // false at the end of the file
  void end_member();
  void begin_block();
  void read_codes();
  void unpack_symbol();
  void copy(size_t distance, size_t length);
  [[nodiscard]] Codes codes_of(std::span<const uint8_t> lengths) const;
  [[nodiscard]] size_t symbol(const Codes& codes);
  void make_room();

  Source source_;
  std::string where_;
  std::array<char, 1 << 16> packed_{};
  size_t at_ = 0, packed_size_ = 0;
  uint32_t held_ = 0;  // bits of bytes taken and not used
  int held_bits_ = 0;
  bool first_ = true, in_member_ = false, in_block_ = false, last_block_ = false, stored_ = false;
  size_t stored_left_ = 0;
  Codes literals_, distances_;
  std::string out_;       // the last 32 KiB unpacked, which later bytes may refer to, and what is not handed out yet
  size_t given_ = 0;      // bytes of out_ handed out
  size_t checked_ = 0;    // bytes of out_ in `crc_`
  size_t member_at_ = 0;  // where this member starts in out_, as far as it is still there
  uint64_t size_ = 0;     // bytes of this member in `crc_`
  uint32_t crc_ = 0;
};

// All of it at once. Throws Error bad_file as GzipReader does, and if more than `limit` bytes come out.
[[nodiscard]] std::string gunzip(std::string_view packed, const std::string& where, uint64_t limit);

}  // namespace exeunt
