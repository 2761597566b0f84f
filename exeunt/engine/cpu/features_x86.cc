// SPDX-License-Identifier: Apache-2.0
// x86-64: the CPUID instruction, and XGETBV for the registers the operating system saves.
#include <cstdint>
#include <cstring>

#include <cpuid.h>

#include "exeunt/base/parallel.h"
#include "exeunt/engine/cpu/cpu_features.h"

namespace exeunt {
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t part = 0) {
  Registers r;
  __get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d);  // leaves r at zero if there is no such leaf
  return r;
}

constexpr bool bit(uint64_t word, int index) {
  return (word >> index & 1) != 0;
}

// XCR0: which register sets the operating system saves on a switch of threads.
uint64_t saved_registers() {
  if (!bit(cpuid(1).c, 27)) return 0;  // OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

std::string brand() {
  if (cpuid(0x80000000).a < 0x80000004) return "unknown";
  std::string text;
  for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Registers r = cpuid(leaf);
    char part[sizeof r];
    std::memcpy(part, &r, sizeof r);
    text.append(part, sizeof part);
  }
  text = text.c_str();  // up to the first zero
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "unknown" : text.substr(first, last - first + 1);
}

}  // namespace

CpuFeatures cpu_features() {
  const uint64_t saved = saved_registers();
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6, tiles = (saved & 0x60000) == 0x60000;
  const Registers one = cpuid(1), seven = cpuid(7), more = cpuid(7, 1);
  CpuFeatures f;
  f.name = brand();
  f.architecture = "x86-64";
  f.threads = thread_count(0);
  f.avx2 = ymm && bit(seven.b, 5) && bit(one.c, 12) && bit(one.c, 29);
  f.avx512 = zmm && f.avx2 && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31);
  f.avx_vnni = f.avx2 && bit(more.a, 4);
  f.avx512_vnni = f.avx512 && bit(seven.c, 11);
  f.avx512_bf16 = f.avx512 && bit(more.a, 5);
  f.amx_bf16 = tiles && bit(seven.d, 24) && bit(seven.d, 22);
  f.amx_int8 = tiles && bit(seven.d, 24) && bit(seven.d, 25);
  return f;
}

}  // namespace exeunt
