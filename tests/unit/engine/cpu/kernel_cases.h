// SPDX-License-Identifier: Apache-2.0
// Buffers, random matrices and plain reference loops for the tests of kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/half.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "tests/reference/encoder_formulas.h"

namespace exeunt {

// Exactly as many bytes as were asked for, aligned, and full of NaNs: what is read without having been written shows.
class KernelBuffer {
 public:
  explicit KernelBuffer(size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(kKernelAlignment, (bytes + 63) / 64 * 64)), std::free) {
    std::memset(data_.get(), 0xff, bytes);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

inline std::vector<float> random_values(size_t n, unsigned seed, float spread = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

inline size_t cells(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

inline float rounded_to_bf16(float value) {
  return bf16_to_float(float_to_bf16(value));
}

// A row of values as a product in this precision sees them: value = level · scale.
struct SeenRow {
  std::vector<float> level;
  float scale = 1;
};

inline SeenRow seen(Precision precision, std::span<const float> row) {
  SeenRow out{.level = {row.begin(), row.end()}};
  if (precision == Precision::bf16) {
    for (float& value : out.level) value = rounded_to_bf16(value);
  } else if (precision == Precision::int8) {
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(value));
    out.scale = largest / 127.0F;
    const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
    for (float& value : out.level) value = std::nearbyint(value * inverse);
  }
  return out;
}

// y = x Wᵀ + b, and how far off a sum of floats may be.
struct Expected {
  std::vector<double> value, tolerance;
};

struct ProductShape {
  int rows = 0, inputs = 0, outputs = 0;
  friend void PrintTo(const ProductShape& shape, std::ostream* out) {
    *out << shape.rows << " rows, " << shape.inputs << " inputs, " << shape.outputs << " outputs";
  }
};

struct ProductCase {
  ProductShape shape;
  Precision precision;
  std::vector<float> x, weight, bias;
};

inline ProductCase random_product(Precision precision, ProductShape shape, unsigned seed = 1) {
  return {.shape = shape,
          .precision = precision,
          .x = random_values(cells(shape.rows, shape.inputs), seed, 2.0F),
          .weight = random_values(cells(shape.outputs, shape.inputs), seed + 1, 0.2F),
          .bias = random_values(static_cast<size_t>(shape.outputs), seed + 2)};
}

inline Expected expected_product(const ProductCase& c) {
  const auto [rows, inputs, outputs] = c.shape;
  Expected out;
  std::vector<SeenRow> weights;
  const auto width = static_cast<size_t>(inputs);
  for (int n = 0; n < outputs; ++n) {
    weights.push_back(seen(c.precision, std::span(c.weight).subspan(static_cast<size_t>(n) * width, width)));
  }
  for (int r = 0; r < rows; ++r) {
    const SeenRow row = seen(c.precision, std::span(c.x).subspan(static_cast<size_t>(r) * width, width));
    for (size_t n = 0; n < weights.size(); ++n) {
      double sum = 0, size = 0;
      for (size_t k = 0; k < width; ++k) {
        const double term = static_cast<double>(row.level[k]) * static_cast<double>(weights[n].level[k]);
        sum += term;
        size += std::abs(term);
      }
      const double scale = static_cast<double>(row.scale) * static_cast<double>(weights[n].scale);
      out.value.push_back(sum * scale + static_cast<double>(c.bias[n]));
      // Sums of integers are exact, so only the last steps round.
      const double of_sum = c.precision == Precision::int8 ? 3e-7 * std::abs(sum) : 2e-6 * size;
      out.tolerance.push_back(of_sum * scale + 2e-7 * std::abs(static_cast<double>(c.bias[n])) + 1e-12);
    }
  }
  return out;
}

// A weight packed by a table, with its buffer.
struct Packed {
  Packed(const Kernels& table, Precision precision, ProductShape shape, const float* from, const float* bias)
      : buffer(table.packed_bytes(precision, shape.inputs, shape.outputs)),
        weight{.precision = precision, .inputs = shape.inputs, .outputs = shape.outputs, .data = buffer.data()} {
    table.pack_weight(weight, from, bias, buffer.data());
  }
  KernelBuffer buffer;
  PackedWeight weight;
};

struct PackedOperand {
  PackedOperand(const Kernels& table, Precision precision, int rows, int columns)
      : buffer(table.operand_bytes(precision, rows, columns)),
        operand{.precision = precision, .rows = rows, .columns = columns, .data = buffer.data()} {}
  KernelBuffer buffer;
  Operand operand;
};

// What an operand in fp32 or bf16 holds, read by a product with the identity.
inline std::vector<float> values_of(const Kernels& table, const Operand& operand) {
  const int n = operand.columns;
  std::vector<float> identity(cells(n, n)), zeros(static_cast<size_t>(n)), out(cells(operand.rows, n));
  for (int i = 0; i < n; ++i) identity[cells(i, n) + static_cast<size_t>(i)] = 1;
  const Packed packed(table, operand.precision, {.inputs = n, .outputs = n}, identity.data(), zeros.data());
  table.multiply({.weight = &packed.weight,
                  .input = operand,
                  .out = out.data(),
                  .stride = static_cast<size_t>(n),
                  .rows = operand.rows,
                  .panels = panels_of(table, packed.weight)});
  return out;
}

// The product of an operand that is packed already.
inline std::vector<float> product_of(const Kernels& table, const ProductCase& c, const Operand& input) {
  const Packed packed(table, c.precision, c.shape, c.weight.data(), c.bias.data());
  std::vector<float> out(cells(c.shape.rows, c.shape.outputs));
  table.multiply({.weight = &packed.weight,
                  .input = input,
                  .out = out.data(),
                  .stride = static_cast<size_t>(c.shape.outputs),
                  .rows = c.shape.rows,
                  .panels = panels_of(table, packed.weight)});
  return out;
}

// Bit patterns, so that equality means equality and a failure prints briefly.
inline std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// The tables that run here.
inline std::vector<const Kernels*> running_kernels() {
  std::vector<const Kernels*> tables;
  for (const Kernels* table : all_kernels()) {
    if (table->runs_on(cpu_features()) && table->prepare()) tables.push_back(table);
  }
  return tables;
}

inline std::vector<Precision> precisions_of(const Kernels& table) {
  if (table.bf16) return {Precision::fp32, Precision::bf16, Precision::int8};
  return {Precision::fp32, Precision::int8};
}

struct TableTest : testing::TestWithParam<const Kernels*> {
  const Kernels& table = *GetParam();
};

}  // namespace exeunt
