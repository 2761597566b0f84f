// SPDX-License-Identifier: Apache-2.0
// A matrix product split into parts for idle threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/worker_pool.h"

namespace exeunt {

// Below this many multiplications, sharing does not pay.
inline constexpr int64_t kMinParallelWork = int64_t{1} << 16;
// From this many on, which take a millisecond or so, a sleeping thread wakes up early enough to help.
inline constexpr int64_t kLongWork = int64_t{1} << 27;
// At most this many in one part: about as long as a helper waits for the next round.
inline constexpr int64_t kMaxPartWork = int64_t{1} << 30;
// Parts per thread: enough that a late or slow thread does not delay the others.
inline constexpr int kPartsPerWorker = 4;

constexpr int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

// The nth step of [0, count) in steps of `step`.
struct Range {
  int begin, count;
};
constexpr Range step_of(int count, int step, int nth) {
  const int begin = nth * step;
  return {begin, std::min(step, count - begin)};
}

// A grid of `columns` × `rows` parts: split across first, and down only if there are too few units across.
struct Grid {
  int across, down;            // units to cut
  int across_step, down_step;  // of one part
  int columns, bands;

  Grid(int units_across, int units_down, int down_block, int wanted) : across(units_across), down(units_down) {
    across_step = divide_up(across, std::clamp(wanted, 1, across));
    columns = divide_up(across, across_step);
    const int blocks = divide_up(down, down_block);
    down_step = divide_up(blocks, std::clamp(wanted / columns, 1, blocks)) * down_block;
    bands = divide_up(down, down_step);
  }
  [[nodiscard]] int parts() const { return columns * bands; }
  [[nodiscard]] Range across_of(int part) const { return step_of(across, across_step, part % columns); }
  [[nodiscard]] Range down_of(int part) const { return step_of(down, down_step, part / columns); }
};

// The best number of parts for work of this size now. Long work wakes those who sleep: a part of a long round may take
// longer than a helper waits for the next one.
inline int wanted_parts(const WorkerPool::Worker& worker, int64_t work) {
  if (work < kMinParallelWork) return 1;
  if (work >= kLongWork) worker.wake_helpers();
  const int workers = work < kLongWork ? worker.workers() : worker.max_workers();
  return workers == 1 ? 1 : std::max(workers * kPartsPerWorker, static_cast<int>(work / kMaxPartWork));
}

// A whole product (`panel` and `panels` are set here), split by panels of the weight, so that each thread reads a part
// of it.
struct SplitProduct {
  const Product* product;
  Grid grid;

  SplitProduct(const Kernels& kernels, const WorkerPool::Worker& worker, const Product& whole)
      : product(&whole),
        grid(panels_of(kernels, *whole.weight), whole.rows, kernels.row_block(whole.weight->precision),
             wanted_parts(worker, int64_t{whole.rows} * whole.weight->inputs * whole.weight->outputs)) {}

  // A part of the product, or of another one of the same shape.
  [[nodiscard]] Product piece(int part, const Product& of) const {
    Product piece = of;
    const Range across = grid.across_of(part), down = grid.down_of(part);
    piece.panel = across.begin;
    piece.panels = across.count;
    piece.row = of.row + down.begin;
    piece.rows = down.count;
    return piece;
  }
  void run(const Kernels& kernels, int part) const { kernels.multiply(piece(part, *product)); }
};

inline void multiply_parallel(const Kernels& kernels, WorkerPool::Worker& worker, const Product& product) {
  const SplitProduct cut(kernels, worker, product);
  worker.parallel_for(cut.grid.parts(), [&](int part, int) { cut.run(kernels, part); });
}

// Two independent products in one round.
inline void multiply_parallel(const Kernels& kernels, WorkerPool::Worker& worker, const Product& first,
                              const Product& second) {
  const SplitProduct cuts[] = {{kernels, worker, first}, {kernels, worker, second}};
  const int before = cuts[0].grid.parts();
  worker.parallel_for(before + cuts[1].grid.parts(), [&](int part, int) {
    const bool later = part >= before;
    cuts[later ? 1 : 0].run(kernels, later ? part - before : part);
  });
}

// Rows of a gated activation at a time: the input of both products stays in the L2 cache.
inline constexpr int kGatedRows = 256;

// A gated activation: `first` is activated into its `out`, then `gate`, of the same shape, multiplies it. A few panels
// of both at a time, so that what was activated is still in the cache.
inline void multiply_gated(const Kernels& kernels, WorkerPool::Worker& worker, const Product& first,
                           const Product& gate) {
  constexpr size_t kCache = size_t{1} << 16;
  const SplitProduct cut(kernels, worker, first);
  const auto panel_width = static_cast<size_t>(kernels.panel_outputs(first.weight->precision));
  worker.parallel_for(cut.grid.parts(), [&](int part, int) {
    const Product whole = cut.piece(part, first);
    Product values = whole, gates = cut.piece(part, gate);
    const int end = whole.panel + whole.panels;
    for (int row = 0; row < whole.rows; row += kGatedRows) {
      values.row = gates.row = whole.row + row;
      values.rows = gates.rows = std::min(kGatedRows, whole.rows - row);
      const size_t bytes = static_cast<size_t>(values.rows) * panel_width * sizeof(float);
      const int step = std::max(1, static_cast<int>(kCache / bytes));
      for (int panel = whole.panel; panel < end; panel += step) {
        values.panel = gates.panel = panel;
        values.panels = gates.panels = std::min(step, end - panel);
        kernels.multiply(values);
        kernels.multiply(gates);
      }
    }
  });
}

}  // namespace exeunt
