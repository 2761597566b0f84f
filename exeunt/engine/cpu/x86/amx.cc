// SPDX-License-Identifier: Apache-2.0
// The table for AMX: bf16 and int8 in tiles, everything else as in AVX-512.
#include <sys/syscall.h>
#include <unistd.h>

#include "exeunt/engine/cpu/table.h"
#include "exeunt/engine/cpu/x86/attention_bf16.h"
#include "exeunt/engine/cpu/x86/blocks_amx.h"

namespace exeunt::kernel {
namespace {

// tdpbssd takes signed bytes in both operands.
struct Lanes : Avx512Lanes {
  static constexpr size_t kQuantizedBytes = 1;
  static void store_quantized(std::byte* p, F a, F b, F c, F d) { _mm512_storeu_si512(p, to_bytes(a, b, c, d)); }
  static void store_quantized(std::byte* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
  }
};

struct Parts {
  using Lanes = kernel::Lanes;
  using Floats = FloatBlock<Lanes, 8, 3>;
  using Bf16s = AmxBlock<Lanes, uint16_t>;
  using Int8s = AmxBlock<Lanes, int8_t>;
  using FloatAttention = kernel::FloatAttention<Lanes, FloatBlock<Lanes, 8, 2>>;
  using Bf16Attention = kernel::Bf16Attention<Lanes, TilePairProducts>;

  static bool runs_on(const CpuFeatures& features) {
    return features.avx512 && features.avx512_bf16 && features.amx_bf16 && features.amx_int8;
  }

  // Linux enables the tile registers (8 KiB in every saved state) only for processes that request them.
  static bool prepare() {
    constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, ask, tile_data) == 0;
  }
};

}  // namespace

constinit const Kernels kAmx = TableOf<Parts>::make("amx");

}  // namespace exeunt::kernel
