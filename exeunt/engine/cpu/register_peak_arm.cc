// SPDX-License-Identifier: Apache-2.0
// Loops in assembly, so that nothing depends on the compiler.
#include <cstdint>

#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/register_peak.h"

namespace exeunt {
namespace {

// Twenty-four independent sums: bfmmla needs at least twenty to hide its latency.
#define EXEUNT_24(line)                                                                                             \
  line("0") line("1") line("2") line("3") line("4") line("5") line("6") line("7") line("8") line("9") line("10")    \
      line("11") line("12") line("13") line("14") line("15") line("16") line("17") line("18") line("19") line("20") \
          line("21") line("22") line("23")
#define EXEUNT_FMLA(n) "fmla v" n ".4s, v30.4s, v31.4s\n"
#define EXEUNT_SDOT(n) "sdot v" n ".4s, v30.16b, v31.16b\n"
#define EXEUNT_SMMLA(n) "smmla v" n ".4s, v30.16b, v31.16b\n"
#define EXEUNT_BFMMLA(n) "bfmmla v" n ".4s, v30.8h, v31.8h\n"
#define EXEUNT_CLOBBERED                                                                                              \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", \
      "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31"
// clang has these instructions from the flags of this file; its assembler does not know their names here.
#ifdef __clang__
#define EXEUNT_ARCH ""
#else
#define EXEUNT_ARCH ".arch armv8.6-a+bf16+i8mm\n"
#endif
// Long enough to make reading the clock negligible.
constexpr int kRounds = 10000;
// Small numbers in every type: zeros would take less power than any real product.
constexpr uint32_t kFactors[] = {0x3c3c3c3c, 0x3c3c3c3c, 0x3c3c3c3c, 0x3c3c3c3c,
                                 0x3c3c3c3c, 0x3c3c3c3c, 0x3c3c3c3c, 0x3c3c3c3c};
// Operations per second of twenty-four instructions of `each`. The factors are loaded for every block of sums, as a
// product loads them: a Neoverse V1 begins four of any of these instructions in a cycle, but only two if both factors
// have lain in their registers for long.
#define EXEUNT_BLOCK(line) "ldp q30, q31, [%0]\n" EXEUNT_24(line)
#define EXEUNT_PEAK(line, each)                                                                     \
  (48.0 * (each)*kRounds / least_seconds([] {                                                       \
     for (int i = 0; i < kRounds; ++i)                                                              \
       asm volatile(EXEUNT_ARCH EXEUNT_BLOCK(line) EXEUNT_BLOCK(line)::"r"(kFactors), "m"(kFactors) \
                    : EXEUNT_CLOBBERED);                                                            \
   }))

}  // namespace

double register_peak(std::string_view table, Precision precision) {
  const bool new_instructions = table == "neon_bf16_i8mm";
  if (table == "generic") return 0;
  if (precision == Precision::fp32) return EXEUNT_PEAK(EXEUNT_FMLA, 8);
  if (precision == Precision::bf16) return new_instructions ? EXEUNT_PEAK(EXEUNT_BFMMLA, 32) : 0;
  if (new_instructions) return EXEUNT_PEAK(EXEUNT_SMMLA, 64);
  return cpu_features().dotprod ? EXEUNT_PEAK(EXEUNT_SDOT, 32) : 0;
}

}  // namespace exeunt
