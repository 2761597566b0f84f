// SPDX-License-Identifier: Apache-2.0
// Loops in assembly, so that nothing depends on the compiler.
#include <cstdint>

#include "exeunt/engine/cpu/register_peak.h"
#include "exeunt/engine/cpu/x86/tiles.h"

namespace exeunt {
namespace {

// Twelve independent sums, more than the instructions' latency times their rate.
#define EXEUNT_TWELVE(line)                                                                                      \
  line("0") line("1") line("2") line("3") line("4") line("5") line("6") line("7") line("8") line("9") line("10") \
      line("11")
#define EXEUNT_FMA_YMM(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" n "\n"
#define EXEUNT_MADD_YMM(n) "vpmaddwd %%ymm14, %%ymm15, %%ymm13\nvpaddd %%ymm13, %%ymm" n ", %%ymm" n "\n"
#define EXEUNT_FMA_ZMM(n) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" n "\n"
#define EXEUNT_MADD_ZMM(n) "vpmaddwd %%zmm14, %%zmm15, %%zmm13\nvpaddd %%zmm13, %%zmm" n ", %%zmm" n "\n"
#define EXEUNT_BF16_ZMM(n) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" n "\n"
#define EXEUNT_VNNI_ZMM(n) "vpdpbusd %%zmm14, %%zmm15, %%zmm" n "\n"
#define EXEUNT_CLOBBERED                                                                                              \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"
// Long enough to make reading the clock negligible.
constexpr int kRounds = 10000, kTileRounds = 1000;
// What is multiplied: small numbers as floats and as pairs of bf16. Zeros would take less power and so run at a clock
// that no real product reaches.
constexpr uint32_t kFactors[] = {0x3c233d71, 0xbc913da4};
// Operations per second of twelve instructions of `each`, in registers `wide` ("ymm" or "zmm").
#define EXEUNT_PEAK(line, wide, each)                                                                          \
  (12.0 * (each)*kRounds / least_seconds([] {                                                                  \
     asm volatile("vzeroall\nvbroadcastss %0, %%" wide "14\nvbroadcastss %1, %%" wide "15" ::"m"(kFactors[0]), \
                  "m"(kFactors[1])                                                                             \
                  : EXEUNT_CLOBBERED);                                                                         \
     for (int i = 0; i < kRounds; ++i) asm volatile(EXEUNT_TWELVE(line)::: EXEUNT_CLOBBERED);                  \
   }))

template <class Weight>
double tile_peak() {
  uint32_t factors[16 * 16];
  for (uint32_t i = 0; i < 16 * 16; ++i) factors[i] = kFactors[i % 2] + i * 0x10003;  // not all alike
  const double seconds = least_seconds([&] {
    kernel::TileShapes(16, 16).load();
    kernel::load_tile<4>(factors, 64);
    kernel::load_tile<5>(factors, 64);
    kernel::load_tile<6>(factors, 64);
    kernel::load_tile<7>(factors, 64);
    for (int i = 0; i < kTileRounds; ++i) {
      kernel::join_tiles<Weight, 0, 4, 6>();
      kernel::join_tiles<Weight, 1, 4, 7>();
      kernel::join_tiles<Weight, 2, 5, 6>();
      kernel::join_tiles<Weight, 3, 5, 7>();
    }
    kernel::release_tiles();
  });
  return 4.0 * kTileRounds * 2 * 16 * 16 * (64 / sizeof(Weight)) / seconds;
}

}  // namespace

double register_peak(std::string_view table, Precision precision) {
  const bool int8 = precision == Precision::int8, bf16 = precision == Precision::bf16;
  if (table == "generic") return 0;
  if (table == "avx2") return int8 ? EXEUNT_PEAK(EXEUNT_MADD_YMM, "ymm", 32) : EXEUNT_PEAK(EXEUNT_FMA_YMM, "ymm", 16);
  if (table == "amx" && (int8 || bf16)) return int8 ? tile_peak<int8_t>() : tile_peak<uint16_t>();
  if (bf16) return EXEUNT_PEAK(EXEUNT_BF16_ZMM, "zmm", 64);
  if (!int8) return EXEUNT_PEAK(EXEUNT_FMA_ZMM, "zmm", 32);
  return table == "avx512" ? EXEUNT_PEAK(EXEUNT_MADD_ZMM, "zmm", 64) : EXEUNT_PEAK(EXEUNT_VNNI_ZMM, "zmm", 128);
}

}  // namespace exeunt
