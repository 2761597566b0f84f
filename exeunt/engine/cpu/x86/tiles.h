// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX: eight of up to 16 rows of 64 bytes. The tiles here have fixed duties:
//   0 1 2 3   sums: (left, upper) (left, lower) … as [row tile][column tile]
//   4 5       left operands: upper and lower rows
//   6 7       right operands: left and right columns
// Compilers do not know that these instructions access memory, so each is inline assembly that declares it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace exeunt::kernel {
namespace {

struct TileShapes {
  // Left operands and sums have `upper` and `lower` rows (lower may be 0); right operands are full.
  TileShapes(int upper, int lower) {
    for (const int tile : {0, 1, 4}) set(tile, upper);
    if (lower > 0) {
      for (const int tile : {2, 3, 5}) set(tile, lower);
    }
    set(6, 16);
    set(7, 16);
  }
  void set(int tile, int rows) {
    row_bytes[tile] = 64;
    row_counts[tile] = static_cast<uint8_t>(rows);
  }
  void load() const { asm volatile("ldtilecfg %0" ::"m"(*this)); }

  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t row_counts[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

inline void release_tiles() {
  asm volatile("tilerelease" ::: "memory");
}

template <int tile>
void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
template <int tile>
void load_tile(const void* from, size_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(tile), "r"(from), "r"(stride) : "memory");
}
// The same for data that is not needed again soon: it does not evict other data from L1.
template <int tile>
void load_passing_tile(const void* from, size_t stride) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" ::"i"(tile), "r"(from), "r"(stride) : "memory");
}
template <int tile>
void store_tile(void* to, size_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(tile), "r"(to), "r"(stride) : "memory");
}
// sums += left · right, for pairs of bf16 (Weight uint16_t) or fours of int8.
template <class Weight, int sums, int left, int right>
void join_tiles() {
  if constexpr (sizeof(Weight) == 2) {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(left), "i"(right));
  } else {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(left), "i"(right));
  }
}

}  // namespace
}  // namespace exeunt::kernel
