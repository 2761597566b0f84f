// SPDX-License-Identifier: Apache-2.0
// The table for AVX-512 with dot products of bytes (VNNI), without bf16.
#include "exeunt/engine/cpu/table.h"
#include "exeunt/engine/cpu/x86/blocks_avx512.h"

namespace exeunt::kernel {
namespace {

struct Parts {
  using Lanes = VnniLanes;
  using Floats = FloatBlock<Lanes, 8, 3>;
  using Bf16s = void;
  using Int8s = Avx512Block<VnniStep>;
  using FloatAttention = kernel::FloatAttention<Lanes, FloatBlock<Lanes, 8, 2>>;

  static bool runs_on(const CpuFeatures& features) { return features.avx512 && features.avx512_vnni; }
};

}  // namespace

constinit const Kernels kAvx512Vnni = TableOf<Parts>::make("avx512_vnni");

}  // namespace exeunt::kernel
