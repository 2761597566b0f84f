// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a matrix product.
//   fp32  the reference's; every other precision is measured against it
//   bf16  operands rounded to bfloat16 (nearest, ties to even), products summed in fp32
//   int8  activations: one dynamic scale per row; weights: one scale per output; sums exact in int32
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace exeunt {

enum class Precision : uint8_t { fp32, bf16, int8 };
inline constexpr std::array kPrecisions = {Precision::fp32, Precision::bf16, Precision::int8};

[[nodiscard]] constexpr std::string_view name_of(Precision precision) noexcept {
  constexpr std::array<std::string_view, 3> names = {"fp32", "bf16", "int8"};
  return names[static_cast<size_t>(precision)];
}

[[nodiscard]] constexpr std::optional<Precision> precision_named(std::string_view name) noexcept {
  for (const Precision precision : kPrecisions) {
    if (name_of(precision) == name) return precision;
  }
  return std::nullopt;
}

}  // namespace exeunt
