// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/crc.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace exeunt {
namespace {

// Eight tables: table[k][b] is the effect of byte b with k bytes behind it, so that eight bytes go in one step.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables(uint32_t reversed_polynomial) {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? reversed_polynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kZip = make_tables(0xEDB88320U);
constexpr Tables kCastagnoli = make_tables(0x82F63B78U);

uint64_t load8(const std::byte* from) noexcept {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint32_t by_table(const Tables& tables, std::span<const std::byte> bytes) noexcept {
  uint32_t crc = ~0U;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = load8(bytes.data()) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)

bool cpu_has_crc32c() noexcept {
  return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_fast(std::span<const std::byte> bytes) noexcept {
  uint64_t crc = ~0U;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) crc = _mm_crc32_u64(crc, load8(bytes.data()));
  auto last = static_cast<uint32_t>(crc);
  for (const std::byte byte : bytes) last = _mm_crc32_u8(last, static_cast<uint8_t>(byte));
  return ~last;
}

#elif defined(__aarch64__)

bool cpu_has_crc32c() noexcept {
  return (getauxval(AT_HWCAP) & (1UL << 7)) != 0;
}

// Written as instructions, because clang 14 has the intrinsics only where the whole file is built for them.
uint32_t crc32c_fast(std::span<const std::byte> bytes) noexcept {
  uint32_t crc = ~0U;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(load8(bytes.data())));
  }
  for (const std::byte byte : bytes) {
    asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(static_cast<uint32_t>(byte)));
  }
  return ~crc;
}

#else

bool cpu_has_crc32c() noexcept {
  return false;
}
uint32_t crc32c_fast(std::span<const std::byte> bytes) noexcept {
  return crc32c_plain(bytes);
}

#endif

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  return by_table(kZip, bytes);
}

uint32_t crc32c_plain(std::span<const std::byte> bytes) noexcept {
  return by_table(kCastagnoli, bytes);
}

uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  static const bool fast = cpu_has_crc32c();
  return fast ? crc32c_fast(bytes) : crc32c_plain(bytes);
}

}  // namespace exeunt
