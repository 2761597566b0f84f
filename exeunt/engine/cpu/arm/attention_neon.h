// SPDX-License-Identifier: Apache-2.0
// Attention by tiles: eight queries at a time against all keys, softmax along their rows of scores, then against all
// values. Keys and values of a head are packed as the panels of a product are (without headers): a key is an output
// with the head's width as inputs, and a column of the values is an output with the tokens as inputs.
#pragma once

#include <type_traits>

#include "exeunt/engine/cpu/arm/pack.h"
#include "exeunt/engine/cpu/row_kernels.h"

namespace exeunt::kernel {
namespace {

// The sizes of the keys, values, queries, scores and probabilities of one head, in this order.
struct HeadRoom {
  HeadRoom(Precision precision, int tokens, int width)
      : key_row(row_bytes(precision, width)),
        value_row(row_bytes(precision, tokens)),
        scores_stride((static_cast<size_t>(tokens) + kTileColumns - 1) / kTileColumns * kTileColumns),
        value_columns((static_cast<size_t>(width) + kTileColumns - 1) / kTileColumns * kTileColumns) {}

  static constexpr size_t padded(size_t bytes) { return (bytes + kAhead + 63) / 64 * 64; }
  [[nodiscard]] size_t values() const { return padded(scores_stride * key_row); }
  [[nodiscard]] size_t queries() const { return values() + padded(value_columns * value_row); }
  [[nodiscard]] size_t scores() const { return queries() + padded(kTileRows * key_row); }
  [[nodiscard]] size_t shares() const { return scores() + padded(kTileRows * scores_stride * sizeof(float)); }
  [[nodiscard]] size_t bytes() const { return shares() + padded(kTileRows * value_row); }

  size_t key_row, value_row;            // bytes of one key and of one column of the values
  size_t scores_stride, value_columns;  // tokens and columns, padded to whole panels
};

// 2^x of n vectors for x ≤ 0, with a relative error of 8e-5, a fiftieth of bf16's rounding; clamped to 2^−120.
// Operation by operation over all of them: vector by vector, most operations would wait for the one before.
template <int n>
EXEUNT_INLINE void rough_powers_of_two(float32x4_t (&x)[n]) {
  const auto each = [](auto operation) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) operation(i);
  };
  const float32x4_t shift = vdupq_n_f32(0x1.8p23F);  // added, it leaves no room for a fraction
  constexpr float cubic[] = {0.99992806F, 0.69326097F, 0.24261113F, 0.055171665F};
  float32x4_t shifted[n];
  each([&](int i) { x[i] = vmaxq_f32(x[i], vdupq_n_f32(-120.0F)); });
  each([&](int i) { shifted[i] = vaddq_f32(x[i], shift); });
  each([&](int i) { x[i] = vsubq_f32(x[i], vsubq_f32(shifted[i], shift)); });
  each([&](int i) { x[i] = Lanes::polynomial(cubic, x[i]); });
  // Unsigned: the sum of the bit patterns wraps around by design, and signed overflow is undefined.
  each([&](int i) {
    const uint32x4_t power = vshlq_n_u32(vreinterpretq_u32_f32(shifted[i]), 23);
    x[i] = vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x[i]), power));
  });
}

// x where its place is in [begin, end), and zeros.
EXEUNT_INLINE float32x4_t kept(float32x4_t x, int begin, int end) {
  constexpr int32_t places[] = {0, 1, 2, 3};
  const int32x4_t place = vld1q_s32(places);
  const uint32x4_t inside = vandq_u32(vcgeq_s32(place, vdupq_n_s32(begin)), vcltq_s32(place, vdupq_n_s32(end)));
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), inside));
}

// A row of scores as e^((score − largest) · scale) in bf16, and the sum of these before they are rounded. Steps of
// eight keys from `first` (a multiple of 8) to `last` are written, with zeros for keys that are not `seen`.
template <class T>
float share_bf16(const float* row, int first, int last, SeenKeys seen, float scale, std::byte* to) {
  float32x4_t most[4];
  for (float32x4_t& some : most) some = vdupq_n_f32(row[seen.begin]);
  int t = seen.begin;
  for (; t + 16 <= seen.end; t += 16) {
    for (int i = 0; i < 4; ++i) most[i] = vmaxq_f32(most[i], vld1q_f32(row + t + 4 * i));
  }
  for (; t + 4 <= seen.end; t += 4) most[0] = vmaxq_f32(most[0], vld1q_f32(row + t));
  float largest = vmaxvq_f32(vmaxq_f32(vmaxq_f32(most[0], most[1]), vmaxq_f32(most[2], most[3])));
  for (; t < seen.end; ++t) largest = row[t] > largest ? row[t] : largest;

  const float by = scale * 1.44269504F;
  const float32x4_t offset = vdupq_n_f32(-largest * by);
  float32x4_t sum = vdupq_n_f32(0), second = sum;
  const auto share = [&](int from, auto count, auto keep) __attribute__((always_inline)) {
    constexpr int vectors = decltype(count)::value;
    float32x4_t x[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) x[i] = vfmaq_n_f32(offset, vld1q_f32(row + from + 4 * i), by);
    rough_powers_of_two(x);
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) {
      x[i] = keep(x[i], from + 4 * i);
      float32x4_t& part = i % 2 == 0 ? sum : second;
      part = vaddq_f32(part, x[i]);
      vst1_u16(reinterpret_cast<uint16_t*>(to + static_cast<size_t>(from / 4 + i) * 8 * kTileRows), T::to_bf16(x[i]));
    }
  };
  constexpr std::integral_constant<int, 2> one_step = {};
  constexpr std::integral_constant<int, 8> four_steps = {};
  const auto all = [](float32x4_t x, int) { return x; };
  const auto those_seen = [&](float32x4_t x, int from) { return kept(x, seen.begin - from, seen.end - from); };
  // What is not seen may be garbage. Loops of their own: in one, the masks would be computed for all steps.
  t = first;
  for (; t < seen.begin; t += 8) share(t, one_step, those_seen);
  for (; t + 32 <= seen.end; t += 32) share(t, four_steps, all);
  for (; t + 8 <= seen.end; t += 8) share(t, one_step, all);
  for (; t < last; t += 8) share(t, one_step, those_seen);
  return vaddvq_f32(vaddq_f32(sum, second));
}

// T is a tile of fp32 or bf16, as in multiply.h.
template <class T>
struct Attending {
  static constexpr Precision kPrecision = T::kPrecision;
  static constexpr size_t kUnit = unit_bytes(kPrecision);
  using Element = std::conditional_t<kPrecision == Precision::fp32, float, uint16_t>;

  Attending(const Attention& attention, int in_head)
      : work(attention),
        head(in_head),
        room(kPrecision, attention.tokens, attention.head_width),
        keys(attention.scratch),
        values(keys + room.values()),
        queries(keys + room.queries()),
        shares(keys + room.shares()),
        scores(reinterpret_cast<float*>(keys + room.scores())) {}

  const Attention& work;
  int head;
  HeadRoom room;
  std::byte *keys, *values, *queries, *shares;
  float* scores;

  [[nodiscard]] const Element* row_of(const void* matrix, int row) const {
    return static_cast<const Element*>(matrix) + static_cast<size_t>(row) * work.stride +
           static_cast<size_t>(head) * static_cast<size_t>(work.head_width);
  }

  void pack_keys() const {
    const size_t bytes = static_cast<size_t>(work.head_width) * sizeof(Element);
    for (int t = 0; t < work.tokens; ++t) {
      const size_t lane = static_cast<size_t>(t % kTileColumns), panel = static_cast<size_t>(t / kTileColumns);
      put_bytes<kUnit, kTileColumns>(row_of(work.key, t), bytes,
                                     keys + panel * kTileColumns * room.key_row + lane * kUnit);
    }
  }

  // Where the unit of column c (a multiple of 4) that begins with token t lies.
  [[nodiscard]] std::byte* value_at(int t, int c) const {
    const size_t panel = static_cast<size_t>(c / kTileColumns), lane = static_cast<size_t>(c % kTileColumns);
    const size_t unit = static_cast<size_t>(t) * sizeof(Element) / kUnit;
    return values + panel * kTileColumns * room.value_row + (unit * kTileColumns + lane) * kUnit;
  }

  // Columns c … c + 3 of row t; zeros where there is no such token or column.
  using Quad = std::conditional_t<kPrecision == Precision::fp32, float32x4_t, uint16x4_t>;
  [[nodiscard]] Quad value_quad(int t, int c) const {
    Element quad[4] = {};
    const Element* from = quad;
    if (t < work.tokens && c + 4 <= work.head_width) {
      from = row_of(work.value, t) + c;
    } else if (t < work.tokens && c < work.head_width) {
      std::memcpy(quad, row_of(work.value, t) + c, static_cast<size_t>(work.head_width - c) * sizeof(Element));
    }
    if constexpr (kPrecision == Precision::fp32) {
      return vld1q_f32(from);
    } else {
      return vld1_u16(from);
    }
  }

  void pack_values() const {
    const auto tokens = static_cast<int>(room.value_row / sizeof(Element));
    const int columns = (work.head_width + 3) / 4 * 4;
    if constexpr (kPrecision == Precision::fp32) {
      for (int t = 0; t < tokens; ++t) {
        for (int c = 0; c < columns; c += 4) vst1q_f32(reinterpret_cast<float*>(value_at(t, c)), value_quad(t, c));
      }
    } else {
      for (int t = 0; t < tokens; t += 4) {
        for (int c = 0; c < columns; c += 4) {
          // Four tokens of each of four columns: the rows are turned into columns on their way out.
          const uint16x4x4_t rows = {
              {value_quad(t, c), value_quad(t + 1, c), value_quad(t + 2, c), value_quad(t + 3, c)}};
          vst4_u16(reinterpret_cast<uint16_t*>(value_at(t, c)), rows);
        }
      }
    }
  }

  // Keys of one step of the shares; sums begin with whole steps.
  static constexpr int kStepKeys = static_cast<int>(kStep / sizeof(Element));
  static int step_of(int key) { return key / kStepKeys * kStepKeys; }

  void score(int row, int rows, SeenKeys seen) const {
    const size_t bytes = static_cast<size_t>(work.head_width) * sizeof(Element);
    for (int r = 0; r < rows; ++r) {
      put_bytes<kUnit, kTileRows>(row_of(work.query, row + r), bytes, queries + static_cast<size_t>(r) * kUnit);
    }
    const int first = seen.begin / kTileColumns * kTileColumns;
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(seen.end); t += kTileColumns) {
      float32x4_t sums[24];
      T::run(queries, keys + t * room.key_row, room.key_row / kStep, sums);
#pragma GCC unroll 24
      for (size_t i = 0; i < 24; ++i) vst1q_f32(scores + i / 3 * room.scores_stride + t + i % 3 * 4, sums[i]);
    }
  }

  // Scores become unnormalised probabilities; the sum is divided out at the end.
  // `tile` are the keys that any of the rows sees: those of a row are among them.
  __attribute__((flatten)) void share(int first_row, int rows, SeenKeys tile, float (&inverse)[kTileRows]) const {
    const float scale = scale_of<Lanes>(work);
    const int first = step_of(tile.begin);
    for (int r = 0; r < rows; ++r) {
      float* row = scores + static_cast<size_t>(r) * room.scores_stride;
      std::byte* to = shares + static_cast<size_t>(r) * kUnit;
      const SeenKeys seen = seen_keys<Lanes>(work, first_row + r, 1);
      if constexpr (kPrecision == Precision::bf16) {
        inverse[r] = 1.0F / share_bf16<T>(row, first, tile.end, seen, scale, to);
      } else {
        inverse[r] = 1.0F / exp_all<Lanes>(row + seen.begin, seen.end - seen.begin, scale);
        for (int t = first; t < seen.begin; ++t) row[t] = 0;
        for (int t = seen.end; t < tile.end; ++t) row[t] = 0;
        put_row<T, kTileRows>(kPrecision, row + first, tile.end - first,
                              to + static_cast<size_t>(first) * sizeof(Element) * kTileRows);
      }
    }
  }

  // `count` values of row `row` from the head's column c on.
  void store(int row, int c, const float* from, int count) const {
    const int column = head * work.head_width + c;
    if (work.context != nullptr) {
      float* to = work.context + static_cast<size_t>(row) * work.context_stride + column;
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    const Operand& next = work.next;
    for (int i = 0; i < count; ++i) {
      if constexpr (T::kBf16) {
        if (next.precision == Precision::bf16) {
          const int at = column + i;
          std::byte* to =
              units_of_row<Precision::bf16>(next, work.next_row + row) + static_cast<size_t>(at / 4) * 8 * kTileRows;
          reinterpret_cast<uint16_t*>(to)[at % 4] = vget_lane_u16(T::to_bf16(vdupq_n_f32(from[i])), 0);
          continue;
        }
      }
      std::byte* to =
          units_of_row<Precision::fp32>(next, work.next_row + row) + static_cast<size_t>(column + i) * 4 * kTileRows;
      *reinterpret_cast<float*>(to) = from[i];
    }
  }

  // After the last head: the next operand's rows end in zeros.
  void clear_padding(int row) const {
    const Operand& next = work.next;
    const auto end = static_cast<int>(row_bytes(next.precision, next.columns) / element_bytes(next.precision));
    const int column = (head + 1) * work.head_width;
    constexpr float zeros[kStep] = {};
    if (work.context == nullptr && column == next.columns) store(row, work.head_width, zeros, end - column);
  }

  // Eight rows of `count` columns (a multiple of 4), directly from registers.
  EXEUNT_INLINE void store_whole(int row, int c, const float32x4_t (&sums)[24], int count) const {
    const int column = head * work.head_width + c;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      std::byte* to = nullptr;
      if (work.context != nullptr) {
        to = reinterpret_cast<std::byte*>(work.context + static_cast<size_t>(row + r) * work.context_stride + column);
      } else {
        to = units_of_row<Precision::bf16>(work.next, work.next_row + row + r) +
             static_cast<size_t>(column) * 2 * kTileRows;
      }
#pragma GCC unroll 3
      for (int q = 0; q < 3; ++q) {
        if (4 * q >= count) continue;
        if (work.context != nullptr) vst1q_f32(reinterpret_cast<float*>(to) + 4 * q, sums[3 * r + q]);
        if constexpr (T::kBf16) {
          if (work.context == nullptr) {
            vst1_u16(reinterpret_cast<uint16_t*>(to + static_cast<size_t>(q) * 8 * kTileRows),
                     T::to_bf16(sums[3 * r + q]));
          }
        }
      }
    }
  }

  void sum_values(int row, int rows, SeenKeys seen, const float (&inverse)[kTileRows]) const {
    // Of every row of shares and values, the steps from the first key that is seen to the last.
    const auto first = static_cast<size_t>(step_of(seen.begin)) * sizeof(Element) / kStep,
               last = (static_cast<size_t>(seen.end) * sizeof(Element) + kStep - 1) / kStep;
    const bool quads = work.head_width % 4 == 0 && (work.context != nullptr || work.next.precision == Precision::bf16);
    for (int c = 0; c < work.head_width; c += kTileColumns) {
      const int count = work.head_width - c < kTileColumns ? work.head_width - c : kTileColumns;
      float32x4_t sums[24];
      const std::byte* panel = values + static_cast<size_t>(c) * room.value_row + first * kStep * kTileColumns;
      T::run(shares + first * kStep * kTileRows, panel, last - first, sums);
#pragma GCC unroll 24
      for (int i = 0; i < 24; ++i) sums[i] = vmulq_n_f32(sums[i], inverse[i / 3]);
      if (quads && rows == kTileRows) {
        store_whole(row, c, sums, count);
        continue;
      }
      float tile[kTileRows * kTileColumns];
#pragma GCC unroll 24
      for (int i = 0; i < 24; ++i) vst1q_f32(tile + 4 * i, sums[i]);
      for (int r = 0; r < rows; ++r) store(row + r, c, tile + r * kTileColumns, count);
    }
    for (int r = 0; r < rows; ++r) clear_padding(row + r);
  }

  static void attend(const Attention& work) {
    for (int head = work.head; head < work.head + work.heads; ++head) {
      const Attending one(work, head);
      one.pack_keys();
      one.pack_values();
      const int end = work.row + work.rows;
      for (int row = work.row; row < end; row += kTileRows) {
        const int rows = end - row < kTileRows ? end - row : kTileRows;
        float inverse[kTileRows] = {};
        const SeenKeys seen = seen_keys<Lanes>(work, row, rows);
        one.score(row, rows, seen);
        if (work.bias != nullptr) {
          for (int r = 0; r < rows; ++r) {
            add_bias<Lanes>(work, row + r, one.scores + static_cast<size_t>(r) * one.room.scores_stride);
          }
        }
        one.share(row, rows, seen, inverse);
        one.sum_values(row, rows, seen, inverse);
      }
    }
  }
};

}  // namespace
}  // namespace exeunt::kernel
