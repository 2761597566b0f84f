// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/crc.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace exeunt {
namespace {

constexpr uint32_t kZip = 0xEDB88320U, kCastagnoli = 0x82F63B78U;  // the polynomials, bit-reversed

// Eight tables: table[k][b] is the effect of byte b followed by k bytes, so that eight bytes are processed per step.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables(uint32_t polynomial) {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
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

template <uint32_t polynomial>
constexpr Tables kTables = make_tables(polynomial);

uint64_t load8(const std::byte* from) noexcept {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The reference. `crc` is the previous state, without the final inversion.
template <uint32_t polynomial>
uint32_t by_table(uint32_t crc, std::span<const std::byte> bytes) noexcept {
  const Tables& tables = kTables<polynomial>;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = load8(bytes.data()) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return crc;
}

#if defined(__x86_64__)

bool cpu_is_fast() noexcept {
  return __builtin_cpu_supports("pclmul") != 0;
}

// x^power modulo the polynomial, in the bit order of the product of two reversed numbers.
constexpr int64_t power_of_x(uint32_t polynomial, int power) {
  uint32_t value = 0x80000000U;  // 1
  for (int i = 0; i < power; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
  return static_cast<int64_t>(value) << 1;
}

// Advances `state` over the bytes up to `next` and combines the two.
__attribute__((target("pclmul"))) inline __m128i fold(__m128i state, __m128i constants,
                                                      const std::byte* next) noexcept {
  const __m128i low = _mm_clmulepi64_si128(state, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(state, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128(reinterpret_cast<const __m128i*>(next)));
}

// Bytes are a polynomial over bits. A prefix can be replaced by any shorter one that is equal modulo the CRC
// polynomial; carry-less products with powers of x do that for 64 bytes per step. The last 16 bytes use the table.
template <uint32_t polynomial>
__attribute__((target("pclmul"))) uint32_t fast(uint32_t crc, std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < 128) return by_table<polynomial>(crc, bytes);
  constexpr int64_t kFar[2] = {power_of_x(polynomial, 512 + 32), power_of_x(polynomial, 512 - 32)};
  constexpr int64_t kNear[2] = {power_of_x(polynomial, 128 + 32), power_of_x(polynomial, 128 - 32)};
  const __m128i far = _mm_set_epi64x(kFar[1], kFar[0]), near = _mm_set_epi64x(kNear[1], kNear[0]);
  const auto load = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data()) + i); };
  __m128i a = _mm_xor_si128(load(0), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i b = load(1), c = load(2), d = load(3);
  for (bytes = bytes.subspan(64); bytes.size() >= 64; bytes = bytes.subspan(64)) {
    a = fold(a, far, bytes.data());
    b = fold(b, far, bytes.data() + 16);
    c = fold(c, far, bytes.data() + 32);
    d = fold(d, far, bytes.data() + 48);
  }
  std::array<std::byte, 64> last;
  const __m128i parts[] = {a, b, c, d};
  std::memcpy(last.data(), parts, sizeof last);
  for (size_t i = 16; i < 64; i += 16) a = fold(a, near, last.data() + i);
  std::memcpy(last.data(), &a, 16);
  return by_table<polynomial>(by_table<polynomial>(0, std::span(last).first(16)), bytes);
}

#elif defined(__aarch64__)

bool cpu_is_fast() noexcept {
  return (getauxval(AT_HWCAP) & (1UL << 7)) != 0;
}

// Inline assembly, because clang 14 has the intrinsics only if the whole file is compiled for them.
template <uint32_t polynomial>
uint32_t fast(uint32_t crc, std::span<const std::byte> bytes) noexcept {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = load8(bytes.data());
    if constexpr (polynomial == kZip) {
      asm(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    } else {
      asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
  }
  return by_table<polynomial>(crc, bytes);
}

#else

bool cpu_is_fast() noexcept {
  return false;
}
template <uint32_t polynomial>
uint32_t fast(uint32_t crc, std::span<const std::byte> bytes) noexcept {
  return by_table<polynomial>(crc, bytes);
}

#endif

template <uint32_t polynomial>
uint32_t checksum(std::span<const std::byte> bytes, uint32_t before = 0) noexcept {
  static const bool instructions = cpu_is_fast();
  return ~(instructions ? fast<polynomial>(~before, bytes) : by_table<polynomial>(~before, bytes));
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) noexcept {
  return checksum<kZip>(bytes, before);
}
uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  return checksum<kCastagnoli>(bytes);
}
uint32_t crc32_plain(std::span<const std::byte> bytes) noexcept {
  return ~by_table<kZip>(~0U, bytes);
}
uint32_t crc32c_plain(std::span<const std::byte> bytes) noexcept {
  return ~by_table<kCastagnoli>(~0U, bytes);
}

}  // namespace exeunt
