// SPDX-License-Identifier: Apache-2.0
// The table for AVX-512 with dot products of bytes (VNNI) and of bf16.
#include "exeunt/engine/cpu/table.h"
#include "exeunt/engine/cpu/x86/attention_bf16.h"
#include "exeunt/engine/cpu/x86/blocks_avx512.h"

namespace exeunt::kernel {
namespace {

// Small products for attention: eight rows by two vectors.
struct PairProducts {
  static constexpr int kRows = 8;
  static void begin() {}
  static void end() {}

  template <int rows, int vectors>
  static void run_columns(const PairProduct& p, int column) {
    __m512 sums[rows][vectors];
    for (auto& row : sums) {
      for (__m512& sum : row) sum = _mm512_setzero_ps();
    }
    const uint32_t* b = p.b + column;
    for (int k = 0; k < p.pairs; ++k, b += p.b_stride) {
      __m512bh w[vectors];
      for (int v = 0; v < vectors; ++v) w[v] = Bf16Step::weights(reinterpret_cast<const std::byte*>(b + 16 * v));
      for (int r = 0; r < rows; ++r) {
        int32_t pair;
        std::memcpy(&pair, p.a + static_cast<size_t>(r) * p.a_stride + 2 * k, sizeof(pair));
        for (int v = 0; v < vectors; ++v) Bf16Step::join(sums[r][v], _mm512_set1_epi32(pair), w[v]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        _mm512_storeu_ps(p.sums + static_cast<size_t>(r) * p.sums_stride + column + 16 * v, sums[r][v]);
      }
    }
  }

  template <int rows = kRows>
  static void run(const PairProduct& p) {
    if constexpr (rows > 1) {
      if (p.rows < rows) return run<rows - 1>(p);
    }
    int column = 0;
    for (; column + 32 <= p.columns; column += 32) run_columns<rows, 2>(p, column);
    if (column < p.columns) run_columns<rows, 1>(p, column);
  }
};

struct Parts {
  using Lanes = VnniLanes;
  using Floats = FloatBlock<Lanes, 8, 3>;
  using Bf16s = Avx512Block<Bf16Step>;
  using Int8s = Avx512Block<VnniStep>;
  using FloatAttention = kernel::FloatAttention<Lanes, FloatBlock<Lanes, 8, 2>>;
  using Bf16Attention = kernel::Bf16Attention<Lanes, PairProducts>;

  static bool runs_on(const CpuFeatures& features) {
    return features.avx512 && features.avx512_vnni && features.avx512_bf16;
  }
};

}  // namespace

constinit const Kernels kAvx512Bf16 = TableOf<Parts>::make("avx512_bf16");

}  // namespace exeunt::kernel
