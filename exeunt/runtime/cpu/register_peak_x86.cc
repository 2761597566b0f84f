// SPDX-License-Identifier: Apache-2.0
// Loops in assembler, so that nothing is left to the compiler.
#include <cstdint>

#include "exeunt/runtime/cpu/register_peak.h"

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
// Operations per second of twelve instructions of `each`. The registers start as zeros.
#define EXEUNT_PEAK(line, each)                                                           \
  (12.0 * (each)*400 / least_seconds([] {                                                 \
     asm volatile("vzeroall" ::: EXEUNT_CLOBBERED);                                       \
     for (int i = 0; i < 400; ++i) asm volatile(EXEUNT_TWELVE(line)::: EXEUNT_CLOBBERED); \
   }))

struct AllTiles {
  AllTiles() { std::fill_n(row_bytes, 8, 64), std::fill_n(rows, 8, 16); }
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

template <bool int8>
double tile_peak() {
  const AllTiles shapes;
  const double seconds = least_seconds([&] {
    asm volatile("ldtilecfg %0" ::"m"(shapes));
    for (int i = 0; i < 100; ++i) {
      if constexpr (int8) {
        asm volatile(
            "tdpbssd %tmm6, %tmm4, %tmm0\ntdpbssd %tmm7, %tmm4, %tmm1\n"
            "tdpbssd %tmm6, %tmm5, %tmm2\ntdpbssd %tmm7, %tmm5, %tmm3");
      } else {
        asm volatile(
            "tdpbf16ps %tmm6, %tmm4, %tmm0\ntdpbf16ps %tmm7, %tmm4, %tmm1\n"
            "tdpbf16ps %tmm6, %tmm5, %tmm2\ntdpbf16ps %tmm7, %tmm5, %tmm3");
      }
    }
    asm volatile("tilerelease");
  });
  return 4.0 * 100 * 2 * 16 * 16 * (int8 ? 64 : 32) / seconds;
}

}  // namespace

double register_peak(std::string_view table, Precision precision) {
  const bool int8 = precision == Precision::int8, bf16 = precision == Precision::bf16;
  if (table == "generic") return 0;
  if (table == "avx2") return int8 ? EXEUNT_PEAK(EXEUNT_MADD_YMM, 32) : EXEUNT_PEAK(EXEUNT_FMA_YMM, 16);
  if (table == "amx" && (int8 || bf16)) return int8 ? tile_peak<true>() : tile_peak<false>();
  if (bf16) return EXEUNT_PEAK(EXEUNT_BF16_ZMM, 64);
  if (!int8) return EXEUNT_PEAK(EXEUNT_FMA_ZMM, 32);
  return table == "avx512" ? EXEUNT_PEAK(EXEUNT_MADD_ZMM, 64) : EXEUNT_PEAK(EXEUNT_VNNI_ZMM, 128);
}

}  // namespace exeunt
