// SPDX-License-Identifier: Apache-2.0
// The table for AMX: bf16 and int8 in tiles, everything else as in AVX-512.
#include <sys/syscall.h>
#include <unistd.h>

#include "exeunt/engine/cpu/table.h"
#include "exeunt/engine/cpu/x86/attention_bf16.h"
#include "exeunt/engine/cpu/x86/tiles.h"

namespace exeunt::kernel {
namespace {

// Products in tiles: up to 32 rows and 32 outputs at once, each as two tiles. While the tiles accumulate one block, the
// vector units run the epilogue of the previous one a few rows at a time, in the same loop, because calls would cost as
// much as the work; meanwhile the weights of the next panel are prefetched.
template <class V, class WeightType>
struct AmxBlock {
  using Weight = WeightType;
  static constexpr int kRows = 32, kColumns = 32, kOffset = 0;
  static constexpr int kGroup = 4 / sizeof(Weight), kStep = 16 * kGroup;  // inputs of one tile
  static constexpr size_t kTileBytes = 1024;

  // [step] [left and right tile] [16 groups] [16 outputs] [inputs of a group]
  static constexpr size_t place(int k, int c) {
    const int tile = k / kStep * 2 + c / 16, group = k % kStep / kGroup;
    return static_cast<size_t>(tile) * 256 * kGroup + static_cast<size_t>((group * 16 + c % 16) * kGroup + k % kGroup);
  }
  static constexpr int stored_inputs(int inputs) { return (inputs + kStep - 1) / kStep * kStep; }

  using P = Panels<AmxBlock>;

  // Prefetches weights that will be needed soon, line by line.
  struct Ahead {
    void ask(int lines) {
      for (int i = 0; i < lines && next < end; ++i, next += 64) _mm_prefetch(next, _MM_HINT_T1);
    }
    const char *next = nullptr, *end = nullptr;
  };

  // A product whose tile shapes are set, with what its loops share.
  template <bool two_row_tiles, class Finisher>
  struct Run {
    static constexpr size_t kSumsStride = sizeof(float) * kColumns;
    // Inputs are processed in slices whose weights fill half of the L1 cache; between slices the sums of a few blocks
    // are spilled unrounded, so the order of additions stays the same.
    static constexpr int kSliceSteps = 12, kRestingBlocks = 4;
    // This many steps after a block has left its tiles, its sums have reached memory.
    static constexpr int kStoreSteps = 2;

    Run(const Product& work, int rows, int upper)
        : product(work),
          stride(Rows<V>::row_bytes(work.input.precision, work.input.columns)),
          panel_bytes(P::panel_bytes(work.weight->inputs)),
          steps(stored_inputs(work.weight->inputs) / kStep),
          block_rows(rows),
          upper_rows(upper),
          blocks((work.rows + rows - 1) / rows) {
      // A single block is memory-bound anyway: the hardware prefetcher does as well.
      if (blocks > 1) lines_each = static_cast<int>(panel_bytes / 64) / (blocks * steps) + 1;
    }

    // The position of a tile of sums in its block.
    template <int tile>
    [[nodiscard]] float* part(float* block) const {
      return block + (tile / 2) * upper_rows * kColumns + (tile % 2) * 16;
    }
    // Stores the tile's sums of the previous block and loads those of this block, or zeros.
    template <int tile>
    void turn(float* coming) const {
      if (current != nullptr) store_tile<tile>(part<tile>(current), kSumsStride);
      coming == nullptr ? zero_tile<tile>() : load_tile<tile>(part<tile>(coming), kSumsStride);
    }

    // One step; the first of a block also switches from the previous block to this one. Multiplications start as early
    // as possible, while the next two tiles are being loaded.
    template <bool turning>
    void step(const std::byte* upper, const std::byte* lower, const std::byte* weights, float* coming) const {
      load_passing_tile<4>(upper, stride);
      load_tile<6>(weights, 64);
      if constexpr (turning) turn<0>(coming);
      join_tiles<Weight, 0, 4, 6>();
      load_tile<7>(weights + kTileBytes, 64);
      if constexpr (turning) turn<1>(coming);
      join_tiles<Weight, 1, 4, 7>();
      if constexpr (two_row_tiles) {
        load_passing_tile<5>(lower, stride);
        if constexpr (turning) turn<2>(coming);
        join_tiles<Weight, 2, 5, 6>();
        if constexpr (turning) turn<3>(coming);
        join_tiles<Weight, 3, 5, 7>();
      }
    }

    // Steps [from, to) of a block, whose sums so far are `coming`, or none; meanwhile the previous block is finished.
    void sum(int first, int from, int to, const std::byte* panel, float* coming) {
      const std::byte *upper = Rows<V>::row(product.input, first) + from * 64, *lower = upper + stride * upper_rows,
                      *w = panel + P::kHeader + static_cast<size_t>(from) * 2 * kTileBytes;
      step<true>(upper, lower, w, coming);
      const int rest = to - from > kStoreSteps ? to - from - kStoreSteps : 1;
      const int rows_each = (pending.rows + rest - 1) / rest;
      Finisher finisher;
      int left = pending.columns == kColumns ? pending.rows : 0;
      if (left > 0) finisher.begin(pending);
      for (int i = from + 1; i < to; ++i) {
        upper += 64, lower += 64, w += 2 * kTileBytes;
        step<false>(upper, lower, w, nullptr);
        ahead.ask(lines_each);
        if (i < from + kStoreSteps) continue;
        for (int end = left < rows_each ? 0 : left - rows_each; left > end; --left) finisher.row();
      }
      ahead.ask(lines_each);
      for (; left > 0; --left) finisher.row();
      if (pending.columns < kColumns) finish_rows<V, Finisher>(pending);  // the last panel, not a whole one
      pending = {};
    }

    void run() {
      const bool sliced = blocks > 1;
      const int slices = sliced ? (steps + kSliceSteps - 1) / kSliceSteps : 1;
      const int slice_steps = (steps + slices - 1) / slices, end = product.row + product.rows;
      const int last = product.panel + product.panels;
      alignas(64) float sums[kRestingBlocks][kRows * kColumns];
      Tile leaving = {};  // the previous block, once its sums are complete
      for (int p = product.panel; p < last; ++p) {
        auto* panel = const_cast<std::byte*>(product.weight->data) + static_cast<size_t>(p) * panel_bytes;
        // After the last panel come the weights of the next product, which this thread needs if it runs this one alone.
        if (p + 1 < last || product.panel == 0) ahead.next = reinterpret_cast<const char*>(panel + panel_bytes);
        ahead.end = ahead.next + panel_bytes;
        for (int group = 0; group < blocks; group += kRestingBlocks) {
          for (int from = 0; from < steps; from += slice_steps) {
            const int to = from + slice_steps < steps ? from + slice_steps : steps;
            for (int b = group; b < blocks && b < group + kRestingBlocks; ++b) {
              // The last block starts early enough to be whole; only its new rows are finished.
              const int row = product.row + b * block_rows, first = row + block_rows <= end ? row : end - block_rows;
              if (leaving.rows > 0) pending = rows_to_finish<V>(leaving, product);
              float* resting = sums[slices > 1 ? b - group : 0];
              sum(first, from, to, panel, from == 0 ? nullptr : resting);
              current = resting;
              leaving = to == steps ? tile_of(p, panel, row, first) : Tile{};
            }
          }
        }
      }
      leave(leaving);
    }

    // The last block has no successor.
    void leave(const Tile& tile) {
      store_tile<0>(part<0>(current), kSumsStride);
      store_tile<1>(part<1>(current), kSumsStride);
      if constexpr (two_row_tiles) {
        store_tile<2>(part<2>(current), kSumsStride);
        store_tile<3>(part<3>(current), kSumsStride);
      }
      finish_rows<V, Finisher>(rows_to_finish<V>(tile, product));
    }

    Tile tile_of(int p, std::byte* panel, int row, int first) const {
      const int columns = product.weight->outputs - p * kColumns;
      return {.sums = current + (row - first) * kColumns,
              .stride = kColumns,
              .row = row,
              .rows = first + block_rows - row,
              .column = p * kColumns,
              .columns = columns < kColumns ? columns : kColumns,
              .bias = P::bias(panel),
              .scale = P::kIntegers ? P::scale(panel) : nullptr};
    }

    const Product& product;
    size_t stride, panel_bytes;
    int steps, block_rows, upper_rows, blocks, lines_each = 0;
    float* current = nullptr;   // where the sums in the tiles will go; null: there are none yet
    RowsToFinish pending = {};  // of a block that has left the tiles
    Ahead ahead = {};
  };

  static void multiply(const Product& product) {
    // As many rows at a time as stay in the L2 cache while all panels pass.
    constexpr size_t cache = size_t{1} << 20;
    const int most =
        static_cast<int>(cache / Rows<V>::row_bytes(product.input.precision, product.input.columns) / kRows);
    const int rows_at_once = (most < 4 ? 4 : most) * kRows;
    Product part = product;
    for (int row = 0; row < product.rows; row += rows_at_once) {
      part.row = product.row + row;
      part.rows = product.rows - row < rows_at_once ? product.rows - row : rows_at_once;
      // Blocks of equal height: a tile takes the time of its rows, and its shape is set once for all.
      const int blocks = (part.rows + kRows - 1) / kRows, block_rows = (part.rows + blocks - 1) / blocks;
      const int upper = block_rows <= 16 ? block_rows : (block_rows + 1) / 2;
      TileShapes(upper, block_rows - upper).load();
      with_finisher<V, P::kIntegers, kColumns / V::kWidth>(part, [&]<class F>() {
        upper == block_rows ? Run<false, F>(part, block_rows, upper).run()
                            : Run<true, F>(part, block_rows, upper).run();
      });
    }
    release_tiles();
  }
};

// Small products for attention, in whole tiles: rows after the last one are never read.
struct TilePairProducts {
  static constexpr int kRows = 32;
  static void begin() { TileShapes(16, 16).load(); }
  static void end() { release_tiles(); }

  template <bool two_row_tiles, bool two_column_tiles>
  static void run_columns(const PairProduct& p, int column) {
    zero_tile<0>();
    if constexpr (two_column_tiles) zero_tile<1>();
    if constexpr (two_row_tiles) zero_tile<2>();
    if constexpr (two_row_tiles && two_column_tiles) zero_tile<3>();
    const uint32_t* b = p.b + column;
    const size_t a_stride = p.a_stride * sizeof(uint16_t), b_stride = p.b_stride * sizeof(uint32_t);
    for (int pair = 0; pair < p.pairs; pair += 16, b += 16 * p.b_stride) {
      load_tile<4>(p.a + 2 * pair, a_stride);
      load_tile<6>(b, b_stride);
      join_tiles<uint16_t, 0, 4, 6>();
      if constexpr (two_column_tiles) {
        load_tile<7>(b + 16, b_stride);
        join_tiles<uint16_t, 1, 4, 7>();
      }
      if constexpr (two_row_tiles) {
        load_tile<5>(p.a + 16 * p.a_stride + 2 * pair, a_stride);
        join_tiles<uint16_t, 2, 5, 6>();
        if constexpr (two_column_tiles) join_tiles<uint16_t, 3, 5, 7>();
      }
    }
    float* to = p.sums + column;
    const size_t stride = p.sums_stride * sizeof(float);
    store_tile<0>(to, stride);
    if constexpr (two_column_tiles) store_tile<1>(to + 16, stride);
    if constexpr (two_row_tiles) store_tile<2>(to + 16 * p.sums_stride, stride);
    if constexpr (two_row_tiles && two_column_tiles) store_tile<3>(to + 16 * p.sums_stride + 16, stride);
  }

  template <bool two_row_tiles>
  static void run_rows(const PairProduct& p) {
    int column = 0;
    for (; column + 32 <= p.columns; column += 32) run_columns<two_row_tiles, true>(p, column);
    if (column < p.columns) run_columns<two_row_tiles, false>(p, column);
  }

  static void run(const PairProduct& p) { p.rows > 16 ? run_rows<true>(p) : run_rows<false>(p); }
};

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
