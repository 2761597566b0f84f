// SPDX-License-Identifier: Apache-2.0
// Assembles a table from its parts, for the tables built on the shared templates. Parts T define
//   Lanes                    the vectors
//   Floats, Bf16s, Int8s     the blocks of each precision; Bf16s is void if there is none
//   FloatAttention, Bf16Attention
//   runs_on(features), and prepare() if the operating system must be asked
#pragma once

#include <type_traits>

#include "exeunt/engine/cpu/attention.h"

namespace exeunt::kernel {

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
  static size_t operand_bytes(Precision precision, int rows, int columns) {
    return Rows<V>::bytes(precision, rows, columns);
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
            .operand_bytes = operand_bytes,
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
