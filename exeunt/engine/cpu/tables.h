// SPDX-License-Identifier: Apache-2.0
// The kernel tables, one per source file. CMakeLists.txt selects those of a build.
#pragma once

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt::kernel {

extern const Kernels kGeneric;

// x86-64
extern const Kernels kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx;

// aarch64
extern const Kernels kNeon, kNeonBf16I8mm;

}  // namespace exeunt::kernel
