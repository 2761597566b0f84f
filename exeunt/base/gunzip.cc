// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/gunzip.h"

#include <algorithm>
#include <cstring>

#include "exeunt/base/crc.h"
#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kWindow = size_t{1} << 15;  // how far back a match may reach
constexpr size_t kPiece = size_t{1} << 16;   // unpacked at a time

// RFC 1951, 3.2.5: the base of each length and distance code, and how many more bits follow.
constexpr std::array<uint16_t, 29> kLengthBase{3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                               31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<uint8_t, 29> kLengthBits{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                              2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<uint16_t, 30> kDistanceBase{1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                 33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<uint8_t, 30> kDistanceBits{0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr std::array<uint8_t, 19> kLengthOrder{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

}  // namespace

GzipReader::GzipReader(Source source, std::string where) : source_(std::move(source)), where_(std::move(where)) {}

void GzipReader::damaged(std::string_view what) const {
  throw_bad_file(where_, Hint{"compress it again; 'gzip -t FILE' checks it"}, "damaged gzip data: {}", what);
}

int GzipReader::next_byte() {
  if (at_ == packed_size_) {
    packed_size_ = source_(packed_);
    at_ = 0;
    if (packed_size_ == 0) return -1;
  }
  return static_cast<unsigned char>(packed_[at_++]);
}

uint32_t GzipReader::byte() {
  const int value = next_byte();
  if (value < 0) damaged("the file ends too early");
  return static_cast<uint32_t>(value);
}

// The lowest bit comes first. At most 16 at once, so that with those held 32 are enough.
uint32_t GzipReader::bits(int count) {
  while (held_bits_ < count) {
    held_ |= byte() << held_bits_;
    held_bits_ += 8;
  }
  const uint32_t value = held_ & ((1U << count) - 1);
  held_ >>= count;
  held_bits_ -= count;
  return value;
}

uint32_t GzipReader::number(int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= byte() << (8 * i);
  return value;
}

bool GzipReader::begin_member() {
  const int start = next_byte();
  if (start < 0 && !first_) return false;
  if (start != 0x1f || next_byte() != 0x8b) {
    if (first_) throw_bad_file(where_, "got a file that is not gzip, although its name ends in .gz");
    damaged("bytes behind its end");
  }
  first_ = false;
  if (byte() != 8) damaged("unknown method");
  const uint32_t flags = byte();
  if ((flags & 0xe0U) != 0) damaged("unknown flags");
  (void)number(4);  // time
  (void)number(2);  // how hard it was compressed, and where
  if ((flags & 4U) != 0) {
    for (uint32_t left = number(2); left > 0; --left) (void)byte();
  }
  for (const uint32_t text : {8U, 16U}) {  // name and comment
    while ((flags & text) != 0 && byte() != 0) {
    }
  }
  if ((flags & 2U) != 0) (void)number(2);
  in_member_ = true;
  last_block_ = in_block_ = false;
  checked_ = member_at_ = out_.size();
  size_ = 0;
  crc_ = 0;
  return true;
}

void GzipReader::end_member() {
  make_room();
  held_ = 0;  // the rest of the last byte is filler
  held_bits_ = 0;
  if (number(4) != crc_) damaged("wrong checksum");
  if (number(4) != static_cast<uint32_t>(size_)) damaged("wrong length");
  in_member_ = false;
}

GzipReader::Codes GzipReader::codes_of(std::span<const uint8_t> lengths) const {
  Codes codes;
  for (const uint8_t length : lengths) ++codes.count[length];
  codes.count[0] = 0;
  std::array<uint16_t, 16> start{};
  int left = 1;  // codes of this length that are still free
  for (size_t length = 1; length < 16; ++length) {
    left = 2 * left - codes.count[length];
    if (left < 0) damaged("too many codes");
    start[length] = static_cast<uint16_t>(start[length - 1] + codes.count[length - 1]);
  }
  codes.symbols.resize(static_cast<size_t>(start[15]) + codes.count[15]);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] != 0) codes.symbols[start[lengths[i]]++] = static_cast<uint16_t>(i);
  }
  return codes;
}

size_t GzipReader::symbol(const Codes& codes) {
  uint32_t code = 0, first = 0, index = 0;
  for (size_t length = 1; length < 16; ++length) {
    code |= bits(1);
    const uint32_t count = codes.count[length];
    if (code < first + count) return codes.symbols[index + (code - first)];
    index += count;
    first = (first + count) << 1;
    code <<= 1;
  }
  damaged("unknown code");
}

void GzipReader::read_codes() {
  const size_t literals = bits(5) + 257, distances = bits(5) + 1, lengths = bits(4) + 4;
  std::array<uint8_t, 19> of_lengths{};
  for (size_t i = 0; i < lengths; ++i) of_lengths[kLengthOrder[i]] = static_cast<uint8_t>(bits(3));
  const Codes length_codes = codes_of(of_lengths);
  std::vector<uint8_t> all;
  while (all.size() < literals + distances) {
    const size_t what = symbol(length_codes);
    if (what < 16) {
      all.push_back(static_cast<uint8_t>(what));
      continue;
    }
    if (what == 16 && all.empty()) damaged("nothing to repeat");
    const uint8_t value = what == 16 ? all.back() : uint8_t{0};
    const size_t times = what == 16 ? 3 + bits(2) : what == 17 ? 3 + bits(3) : 11 + bits(7);
    all.insert(all.end(), times, value);
  }
  if (all.size() > literals + distances) damaged("too many lengths");
  literals_ = codes_of(std::span(all).first(literals));
  distances_ = codes_of(std::span(all).subspan(literals));
}

void GzipReader::begin_block() {
  last_block_ = bits(1) == 1;
  const uint32_t kind = bits(2);
  in_block_ = true;
  stored_ = kind == 0;
  if (kind == 0) {
    held_ = 0;
    held_bits_ = 0;
    stored_left_ = number(2);
    if ((number(2) ^ 0xffffU) != stored_left_) damaged("wrong length of a block");
  } else if (kind == 1) {
    std::array<uint8_t, 288> lengths{};
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    literals_ = codes_of(lengths);
    distances_ = codes_of(std::vector<uint8_t>(30, 5));
  } else if (kind == 2) {
    read_codes();
  } else {
    damaged("unknown kind of block");
  }
}

void GzipReader::copy(size_t distance, size_t length) {
  if (distance > out_.size() - member_at_) damaged("a reference before the start");
  for (size_t i = 0; i < length; ++i) out_ += out_[out_.size() - distance];  // may overlap what it writes
}

void GzipReader::unpack_symbol() {
  if (stored_) {
    if (stored_left_ == 0) {
      in_block_ = false;
      return;
    }
    --stored_left_;
    out_ += static_cast<char>(byte());
    return;
  }
  const size_t what = symbol(literals_);
  if (what < 256) {
    out_ += static_cast<char>(what);
  } else if (what == 256) {
    in_block_ = false;
  } else {
    if (what - 257 >= kLengthBase.size()) damaged("unknown length");
    const size_t length = kLengthBase[what - 257] + bits(kLengthBits[what - 257]);
    const size_t far = symbol(distances_);
    if (far >= kDistanceBase.size()) damaged("unknown distance");
    copy(kDistanceBase[far] + bits(kDistanceBits[far]), length);
  }
}

// Adds what is new to the checksum, and forgets what was handed out and lies beyond the window.
void GzipReader::make_room() {
  const auto fresh = std::as_bytes(std::span(out_).subspan(checked_));
  crc_ = crc32(fresh, crc_);
  size_ += fresh.size();
  const size_t forget = std::min(given_, out_.size() - std::min(out_.size(), kWindow));
  out_.erase(0, forget);
  given_ -= forget;
  member_at_ -= std::min(member_at_, forget);
  checked_ = out_.size();
}

size_t GzipReader::read(std::span<char> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    const size_t take = std::min(out.size() - filled, out_.size() - given_);
    std::memcpy(out.data() + filled, out_.data() + given_, take);
    given_ += take;
    filled += take;
    if (filled == out.size()) break;
    make_room();
    if (!in_member_ && !begin_member()) break;
    while (in_member_ && out_.size() - given_ < kPiece) {
      if (!in_block_ && last_block_) {
        end_member();
      } else if (!in_block_) {
        begin_block();
      } else {
        unpack_symbol();
      }
    }
  }
  return filled;
}

std::string gunzip(std::string_view packed, const std::string& where, uint64_t limit) {
  GzipReader reader(
      [&](std::span<char> into) {
        const size_t size = std::min(into.size(), packed.size());
        std::memcpy(into.data(), packed.data(), size);
        packed.remove_prefix(size);
        return size;
      },
      where);
  std::string out;
  while (true) {
    const size_t before = out.size();
    out.resize(before + kPiece);
    const size_t got = reader.read(std::span(out).subspan(before));
    out.resize(before + got);
    if (out.size() > limit) throw_bad_file(where, "got more than {} bytes when unpacked, want at most that", limit);
    if (got < kPiece) return out;
  }
}

}  // namespace exeunt
