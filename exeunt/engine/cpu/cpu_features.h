// SPDX-License-Identifier: Apache-2.0
// CPU feature detection at start-up, for `exeunt info` and for the selection of kernels. One source file per
// architecture, selected by the build.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace exeunt {

// A flag is set only if both the processor and the operating system support it.
struct CpuFeatures {
  std::string name = {};          // the processor's name, or "unknown"
  std::string architecture = {};  // "x86-64", "aarch64", or what the build calls it
  int threads = 1;                // available to this process

  // x86-64
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx_vnni = false;     // 8-bit dot products in 256-bit registers
  bool avx512_vnni = false;  // the same in 512-bit registers
  bool avx512_bf16 = false;
  bool amx_bf16 = false, amx_int8 = false;  // tiles; the kernel must still be asked for permission before first use

  // aarch64
  bool neon = false, dotprod = false, bf16 = false, i8mm = false, sve = false;
};

[[nodiscard]] CpuFeatures cpu_features();

// The names of the flags that are set, in the order above: {"avx2", "avx512", …}.
[[nodiscard]] std::vector<std::string_view> flag_names(const CpuFeatures& features);

}  // namespace exeunt
