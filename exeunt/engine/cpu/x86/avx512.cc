// SPDX-License-Identifier: Apache-2.0
// The table for AVX-512 alone (F, BW, DQ, VL), without its dot products.
#include "exeunt/engine/cpu/table.h"
#include "exeunt/engine/cpu/x86/blocks_avx512.h"

namespace exeunt::kernel {
namespace {

struct Parts {
  using Lanes = MaddLanes;
  using Floats = FloatBlock<Lanes, 8, 3>;
  using Bf16s = void;
  using Int8s = Avx512Block<MaddStep>;
  using FloatAttention = kernel::FloatAttention<Lanes, FloatBlock<Lanes, 8, 2>>;

  static bool runs_on(const CpuFeatures& features) { return features.avx512; }
};

}  // namespace

constinit const Kernels kAvx512 = TableOf<Parts>::make("avx512");

}  // namespace exeunt::kernel
