// SPDX-License-Identifier: Apache-2.0
// The table for AVX2 with FMA.
#include "exeunt/engine/cpu/table.h"
#include "exeunt/engine/cpu/x86/lanes_avx2.h"

namespace exeunt::kernel {
namespace {

// int8 as pairs of int16: vpmaddwd is exact for any values, while vpmaddubsw would saturate. Weights stay bytes in
// memory and are widened once for all rows of the block.
struct Int8Block {
  using Weight = int8_t;
  static constexpr int kRows = 6, kColumns = 16, kOffset = 0;
  static constexpr size_t place(int k, int c) {
    return static_cast<size_t>(k / 2) * 2 * kColumns + static_cast<size_t>(c * 2 + k % 2);
  }
  static constexpr int stored_inputs(int inputs) { return (inputs + 1) / 2 * 2; }

  static __m256i weights(const std::byte* p) {
    return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
  }

  template <int rows>
  static void run_rows(const Block& block) {
    __m256i sums[rows][2];
    for (int r = 0; r < rows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    const std::byte* w = block.panel;
    for (int k = 0; k < block.inputs; k += 2, w += 2 * kColumns) {
      const __m256i left = weights(w), right = weights(w + kColumns);
      for (int r = 0; r < rows; ++r) {
        int32_t pair;
        std::memcpy(&pair, block.input + static_cast<size_t>(r) * block.stride + static_cast<size_t>(k) * 2, 4);
        const __m256i x = _mm256_set1_epi32(pair);
        sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(x, left));
        sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(x, right));
      }
    }
    auto* out = static_cast<__m256i*>(block.sums);
    for (int r = 0; r < rows; ++r) {
      _mm256_store_si256(out + 2 * r, sums[r][0]);
      _mm256_store_si256(out + 2 * r + 1, sums[r][1]);
    }
  }

  template <int rows = kRows>
  static void run(const Block& block) {
    if constexpr (rows > 1) {
      if (block.rows < rows) return run<rows - 1>(block);
    }
    run_rows<rows>(block);
  }
};

struct Parts {
  using Lanes = kernel::Lanes;
  using Floats = FloatBlock<Lanes, 6, 2>;
  using Bf16s = void;
  using Int8s = Int8Block;
  using FloatAttention = kernel::FloatAttention<Lanes, Floats>;

  static bool runs_on(const CpuFeatures& features) { return features.avx2; }
};

}  // namespace

constinit const Kernels kAvx2 = TableOf<Parts>::make("avx2");

}  // namespace exeunt::kernel
