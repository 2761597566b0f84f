// SPDX-License-Identifier: Apache-2.0
// Assembles a table from its parts, for the tables built on the shared templates. Parts T define
//   Lanes                    the vectors
//   Floats, Bf16s, Int8s     the blocks of each precision; Bf16s is void if there is none
//   FloatAttention, Bf16Attention
//   runs_on(features), and prepare() if the operating system must be asked
#pragma once

#include <type_traits>

#include "exeunt/engine/cpu/product.h"
#include "exeunt/engine/cpu/row_kernels.h"

namespace exeunt::kernel {

// Attention in fp32, for any Lanes V and FloatBlock B. Per head: the keys are transposed and the values copied
// into the scratch, both padded to whole blocks; then the scores, softmax and context of a block of queries are
// computed at a time within the cache.
template <class V, class B>
struct FloatAttention {
  static constexpr size_t round_up(int n) {
    return (static_cast<size_t>(n) + B::kColumns - 1) / B::kColumns * B::kColumns;
  }

  // Keys [head_width, tokens], values [tokens, head_width], scores [kRows, tokens], context [kRows, head_width].
  struct Scratch {
    Scratch(std::byte* data, int tokens, int head_width)
        : token_stride(round_up(tokens)), width_stride(round_up(head_width)) {
      keys = reinterpret_cast<float*>(data);
      values = keys + static_cast<size_t>(head_width) * token_stride;
      scores = values + static_cast<size_t>(tokens) * width_stride;
      context = scores + B::kRows * token_stride;
    }
    static size_t bytes(int tokens, int head_width) {
      const size_t across = round_up(tokens), along = round_up(head_width);
      return (static_cast<size_t>(head_width) * across + static_cast<size_t>(tokens) * along +
              B::kRows * (across + along)) *
             sizeof(float);
    }
    size_t token_stride, width_stride;
    float *keys, *values, *scores, *context;
  };

  static void load_head(const Attention& work, int head, const Scratch& s) {
    const auto width = static_cast<size_t>(work.head_width);
    const auto tokens = static_cast<size_t>(work.tokens);
    const size_t column = static_cast<size_t>(head) * width;
    const float* key = static_cast<const float*>(work.key) + column;
    const float* value = static_cast<const float*>(work.value) + column;
    for (size_t t = 0; t < s.token_stride; ++t) {
      for (size_t i = 0; i < width; ++i) s.keys[i * s.token_stride + t] = t < tokens ? key[t * work.stride + i] : 0.0F;
    }
    for (size_t t = 0; t < tokens; ++t) {
      float* to = s.values + t * s.width_stride;
      std::memcpy(to, value + t * work.stride, width * sizeof(float));
      std::memset(to + width, 0, (s.width_stride - width) * sizeof(float));
    }
  }

  static void store_row(const Attention& work, int head, int row, const float* from) {
    const auto column = static_cast<size_t>(head) * static_cast<size_t>(work.head_width);
    const auto bytes = static_cast<size_t>(work.head_width) * sizeof(float);
    if (work.context != nullptr) {
      std::memcpy(work.context + static_cast<size_t>(row) * work.context_stride + column, from, bytes);
      return;
    }
    std::byte* to = Rows<V>::row(work.next, work.next_row + row);
    if (work.next.precision == Precision::fp32) {
      std::memcpy(reinterpret_cast<float*>(to) + column, from, bytes);
    } else {
      for (int c = 0; c < work.head_width; ++c) {
        reinterpret_cast<uint16_t*>(to)[column + static_cast<size_t>(c)] = Panels<B>::to_bf16(from[c]);
      }
    }
    if ((head + 1) * work.head_width == work.next.columns) Rows<V>::clear_padding(work.next, work.next_row + row);
  }

  static void run_rows(const Attention& work, int head, const Scratch& s, int row, int rows) {
    const auto width = static_cast<size_t>(work.head_width);
    const float* query = static_cast<const float*>(work.query) + static_cast<size_t>(row) * work.stride +
                         static_cast<size_t>(head) * width;
    const SeenKeys seen = seen_keys<V>(work, row, rows);  // by any of the rows
    const auto first = static_cast<size_t>(seen.begin), last = static_cast<size_t>(seen.end);
    for (size_t t = first / B::kColumns * B::kColumns; t < last; t += B::kColumns) {
      B::run({.a = query,
              .a_stride = work.stride,
              .b = s.keys + t,
              .b_stride = s.token_stride,
              .sums = s.scores + t,
              .sums_stride = s.token_stride},
             rows, work.head_width);
    }
    const float scale = scale_of<V>(work);
    float inverse[B::kRows];
    for (int r = 0; r < rows; ++r) {
      float* scores = s.scores + static_cast<size_t>(r) * s.token_stride;
      add_bias<V>(work, row + r, scores);
      const SeenKeys own = seen_keys<V>(work, row + r, 1);
      inverse[r] = 1.0F / exp_all<V>(scores + own.begin, own.end - own.begin, scale);
      // The others have no share at all: with the least share there is, sums would begin below the smallest normal
      // number, where x86 takes a hundred cycles for an addition.
      for (int t = seen.begin; t < own.begin; ++t) scores[t] = 0;
      for (int t = own.end; t < seen.end; ++t) scores[t] = 0;
    }
    for (size_t c = 0; c < s.width_stride; c += B::kColumns) {
      B::run({.a = s.scores + first,
              .a_stride = s.token_stride,
              .b = s.values + first * s.width_stride + c,
              .b_stride = s.width_stride,
              .sums = s.context + c,
              .sums_stride = s.width_stride},
             rows, seen.end - seen.begin);
    }
    for (int r = 0; r < rows; ++r) {
      float* context = s.context + static_cast<size_t>(r) * s.width_stride;
      const auto by = V::set(inverse[r]);
      for (size_t c = 0; c < s.width_stride; c += V::kWidth) V::store(context + c, V::load(context + c) * by);
      store_row(work, head, row + r, context);
    }
  }

  static void attend(const Attention& work) {
    const Scratch scratch(work.scratch, work.tokens, work.head_width);
    for (int head = work.head; head < work.head + work.heads; ++head) {
      load_head(work, head, scratch);
      const int end = work.row + work.rows;
      for (int row = work.row; row < end; row += B::kRows) {
        run_rows(work, head, scratch, row, end - row < B::kRows ? end - row : B::kRows);
      }
    }
  }
};

template <class T>
struct TableOf {
  using V = typename T::Lanes;
  static constexpr bool kBf16 = !std::is_void_v<typename T::Bf16s>;

  // f(a block's type tag) for the precision.
  template <class B>
  struct Tag {
    using Type = B;
  };
  template <class F>
  static auto with_block(Precision precision, F f) {
    if (precision == Precision::int8) return f(Tag<typename T::Int8s>{});
    if constexpr (kBf16) {
      if (precision == Precision::bf16) return f(Tag<typename T::Bf16s>{});
    }
    return f(Tag<typename T::Floats>{});
  }

  static int panel_outputs(Precision precision) {
    return with_block(precision, [](auto tag) { return decltype(tag)::Type::kColumns; });
  }
  static int row_block(Precision precision) {
    return with_block(precision, [](auto tag) { return decltype(tag)::Type::kRows; });
  }
  static size_t packed_bytes(Precision precision, int inputs, int outputs) {
    return with_block(precision,
                      [&](auto tag) { return Panels<typename decltype(tag)::Type>::bytes(inputs, outputs); });
  }
  static void pack_weight(const PackedWeight& shape, const float* weight, const float* bias, std::byte* out) {
    with_block(shape.precision,
               [&](auto tag) { Panels<typename decltype(tag)::Type>::pack(shape, weight, bias, out); });
  }
  static void multiply(const Product& product) {
    with_block(product.weight->precision, [&](auto tag) {
      using B = typename decltype(tag)::Type;
      if constexpr (requires { B::multiply(product); }) {
        B::multiply(product);
      } else {
        kernel::multiply<V, B>(product);
      }
    });
  }
  static size_t attention_scratch(Precision precision, int tokens, int head_width) {
    if constexpr (kBf16) {
      if (precision == Precision::bf16) return T::Bf16Attention::Scratch::bytes(tokens, head_width);
    }
    return T::FloatAttention::Scratch::bytes(tokens, head_width);
  }
  static void attend(const Attention& work) {
    if constexpr (kBf16) {
      if (work.precision == Precision::bf16) return T::Bf16Attention::attend(work);
    }
    T::FloatAttention::attend(work);
  }

  static bool prepare() {
    if constexpr (requires { T::prepare(); }) return T::prepare();
    return true;
  }

  static constexpr Kernels make(std::string_view name) {
    return {.name = name,
            .runs_on = T::runs_on,
            .prepare = prepare,
            .bf16 = kBf16,
            .panel_outputs = panel_outputs,
            .row_block = row_block,
            .packed_bytes = packed_bytes,
            .pack_weight = pack_weight,
            .operand_bytes = Rows<V>::bytes,
            .pack_rows = pack_rows<V>,
            .pack_bf16_rows = kBf16 ? pack_bf16_rows<V> : nullptr,
            .multiply = multiply,
            .normalize = normalize<V>,
            .attention_scratch = attention_scratch,
            .attend = attend,
            .rotate = rotate<V>,
            .add_distances = add_distances<V>,
            .read = read<V>,
            .dot = dot<V>,
            .tanh = tanh_all<V>};
  }
};

}  // namespace exeunt::kernel
