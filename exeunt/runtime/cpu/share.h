// SPDX-License-Identifier: Apache-2.0
// A matrix product cut into parts for the threads that are free.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exeunt/runtime/cpu/crew.h"
#include "exeunt/runtime/cpu/kernels.h"

namespace exeunt {

// Less than this many multiplications are done at once rather than shared.
inline constexpr int64_t kWorthSharing = int64_t{1} << 16;
// Parts per thread: enough that a thread which comes late or is held up does not hold up the others.
inline constexpr int kPartsPerHand = 3;

constexpr int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

// [0, count) cut into steps of `step`: the nth.
struct Range {
  int begin, count;
};
constexpr Range step_of(int count, int step, int nth) {
  const int begin = nth * step;
  return {begin, std::min(step, count - begin)};
}

// A grid of `columns` × `rows` parts: cut across first, and only where there are too few units there also down.
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

// How many parts work of this size is best cut into now.
inline int wanted_parts(const Crew::Member& member, int64_t work, int64_t least = kWorthSharing) {
  const int hands = work < least ? 1 : member.hands();
  return hands == 1 ? 1 : hands * kPartsPerHand;
}

// The whole product (`panel` and `panels` are set here), shared. By panels of the weight, so that each thread reads a
// part of it.
inline void multiply_shared(const Kernels& kernels, Crew::Member& member, const Product& product) {
  const PackedWeight& weight = *product.weight;
  const int64_t work = int64_t{product.rows} * weight.inputs * weight.outputs;
  const Grid grid(panels_of(kernels, weight), product.rows, kernels.row_block(weight.precision),
                  wanted_parts(member, work));
  member.share(grid.parts(), [&](int part, int) {
    Product piece = product;
    const Range across = grid.across_of(part), down = grid.down_of(part);
    piece.panel = across.begin;
    piece.panels = across.count;
    piece.row = product.row + down.begin;
    piece.rows = down.count;
    kernels.multiply(piece);
  });
}

}  // namespace exeunt
