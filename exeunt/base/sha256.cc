// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "exeunt/base/files.h"
#include "exeunt/base/sha256_blocks.h"

namespace exeunt {

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::add(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  total_ += left;
  if (filled_ > 0) {
    const size_t taken = std::min(left, block_.size() - filled_);
    std::memcpy(block_.data() + filled_, data, taken);
    filled_ += taken;
    data += taken;
    left -= taken;
    if (filled_ < block_.size()) return;
    sha256_blocks(state_.data(), block_.data(), 1);
    filled_ = 0;
  }
  const size_t blocks = left / block_.size();
  sha256_blocks(state_.data(), data, blocks);
  data += blocks * block_.size();
  left -= blocks * block_.size();
  if (left > 0) std::memcpy(block_.data(), data, left);
  filled_ = left;
}

void Sha256::add(std::string_view text) {
  add(std::as_bytes(std::span(text)));
}

std::string Sha256::hex() {
  const uint64_t bits = total_ * 8;
  block_[filled_++] = 0x80;
  if (filled_ > 56) {
    std::fill(block_.begin() + static_cast<ptrdiff_t>(filled_), block_.end(), uint8_t{0});
    sha256_blocks(state_.data(), block_.data(), 1);
    filled_ = 0;
  }
  std::fill(block_.begin() + static_cast<ptrdiff_t>(filled_), block_.end(), uint8_t{0});
  for (size_t i = 0; i < 8; ++i) block_[63 - i] = static_cast<uint8_t>(bits >> (8 * i));
  sha256_blocks(state_.data(), block_.data(), 1);
  std::string out;
  for (const uint32_t word : state_) out += fmt::format("{:08x}", word);
  return out;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

std::string sha256_file(const ReadPath& path) {
  return sha256_hex(MappedFile::open(path)->bytes());
}

}  // namespace exeunt
