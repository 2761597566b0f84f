// SPDX-License-Identifier: Apache-2.0
// What works along rows, in every table that runs here, against plain loops at odd sizes.
#include <cmath>

#include <gtest/gtest.h>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "tests/unit/engine/cpu/kernel_cases.h"

namespace exeunt {
namespace {

struct RowsTest : TableTest {};
INSTANTIATE_TEST_SUITE_P(Tables, RowsTest, testing::ValuesIn(running_kernels()),
                         [](const auto& tested) { return std::string(tested.param->name); });

// LayerNorm.

struct NormCase {
  int rows = 0, columns = 0;
  std::vector<float> x, weight, bias;
};

NormCase random_norm(int rows, int columns) {
  NormCase c{.rows = rows,
             .columns = columns,
             .x = random_values(cells(rows, columns), 5, 3.0F),
             .weight = random_values(static_cast<size_t>(columns), 6),
             .bias = random_values(static_cast<size_t>(columns), 7)};
  for (float& value : c.x) value += 1.5F;
  return c;
}

Normalization work_of(const NormCase& c, float* data, Operand next = {}) {
  return {.data = data,
          .stride = static_cast<size_t>(c.columns),
          .columns = c.columns,
          .weight = c.weight.data(),
          .bias = c.bias.data(),
          .epsilon = 1e-12F,
          .next = next,
          .rows = c.rows};
}

TEST_P(RowsTest, NormMatchesReference) {
  for (const int columns : {1, 3, 16, 37, 96, 129, 768, 1001}) {
    const NormCase c = random_norm(9, columns);
    std::vector<float> want = c.x, got = c.x;
    // One column has no variance; any ε will do there, but not one so small that rounding is blown up.
    layer_norm(want, {.weight = c.weight, .bias = c.bias, .epsilon = 1e-12F});
    table.normalize(work_of(c, got.data()));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5F) << columns << " columns, element " << i;
  }
}

TEST_P(RowsTest, NormWritesNextOperand) {
  for (const Precision precision : precisions_of(table)) {
    for (const int columns : {5, 48, 131}) {
      const NormCase c = random_norm(35, columns);
      std::vector<float> rows = c.x;
      const PackedOperand fused(table, precision, c.rows, columns), apart(table, precision, c.rows, columns);
      table.normalize(work_of(c, rows.data(), fused.operand));
      table.pack_rows(rows.data(), static_cast<size_t>(columns), apart.operand, 0, c.rows);

      const ProductCase product = random_product(precision, {.rows = c.rows, .inputs = columns, .outputs = 20});
      EXPECT_EQ(bits_of(product_of(table, product, fused.operand)), bits_of(product_of(table, product, apart.operand)))
          << name_of(precision) << ", " << columns << " columns";
    }
  }
}

TEST_P(RowsTest, NormOfRowIsIndependentOfOthers) {
  const NormCase c = random_norm(33, 133);
  std::vector<float> whole = c.x, parts = c.x;
  table.normalize(work_of(c, whole.data()));
  for (int r = c.rows - 1; r >= 0; --r) {
    Normalization work = work_of(c, parts.data());
    work.row = r;
    work.rows = 1;
    table.normalize(work);
  }
  EXPECT_EQ(bits_of(parts), bits_of(whole));
}

TEST_P(RowsTest, NormKeepsSourceRows) {
  const NormCase c = random_norm(33, 133);
  std::vector<float> in_place = c.x;
  table.normalize(work_of(c, in_place.data()));
  std::vector<float> source = c.x, row(133, NAN);
  for (int r = 0; r < c.rows; ++r) {
    Normalization work = work_of(c, row.data());
    work.from = source.data();
    work.row = r;
    work.rows = 1;
    table.normalize(work);
    const auto want = in_place.begin() + r * c.columns;
    ASSERT_EQ(bits_of(row), bits_of(std::vector<float>(want, want + c.columns))) << "row " << r;
  }
  EXPECT_EQ(bits_of(source), bits_of(c.x));
  for (const Precision precision : precisions_of(table)) {
    const PackedOperand apart(table, precision, c.rows, c.columns), together(table, precision, c.rows, c.columns);
    Normalization work = work_of(c, row.data(), apart.operand);
    work.from = source.data();
    table.normalize(work);
    std::vector<float> rows = c.x;
    table.normalize(work_of(c, rows.data(), together.operand));
    const ProductCase product = random_product(precision, {.rows = c.rows, .inputs = c.columns, .outputs = 7});
    EXPECT_EQ(bits_of(product_of(table, product, apart.operand)), bits_of(product_of(table, product, together.operand)))
        << name_of(precision);
  }
}

// Rotary positions.

TEST_P(RowsTest, RotationMatchesReference) {
  for (const int width : {2, 6, 16, 20, 64, 66}) {
    const int heads = 3, positions = 9, hidden = heads * width;
    const Rotation rotation(10000, width, positions);
    const std::vector<float> rows = random_values(cells(positions, hidden), 41);
    std::vector<float> want = rows, got = rows;
    rotate(want, hidden, rotation);
    for (int t = 0; t < positions; ++t) {
      table.rotate({.row = got.data() + t * hidden,
                    .columns = hidden,
                    .pairs = width / 2,
                    .cosine = rotation.cosines(t),
                    .sine = rotation.sines(t)});
    }
    ASSERT_EQ(bits_of(got), bits_of(want)) << "width " << width;
    if (!table.bf16) continue;
    std::vector<uint16_t> half;
    for (size_t i = 0; i < rows.size(); ++i) {
      half.push_back(float_to_bf16(rows[i]));
      want[i] = bf16_to_float(half.back());
    }
    rotate(want, hidden, rotation);
    for (int t = 0; t < positions; ++t) {
      table.rotate({.precision = Precision::bf16,
                    .row = half.data() + t * hidden,
                    .columns = hidden,
                    .pairs = width / 2,
                    .cosine = rotation.cosines(t),
                    .sine = rotation.sines(t)});
    }
    for (size_t i = 0; i < half.size(); ++i) {
      ASSERT_EQ(bf16_to_float(half[i]), rounded_to_bf16(want[i])) << "width " << width << ", element " << i;
    }
  }
}

// Distances.

TEST_P(RowsTest, DistancesMatchPlainLoops) {
  // Straight up to 20 to either side, then two distances share a place.
  const int farthest = 150, straight = 20, places = 2 * 90;
  std::vector<int> place_of;
  for (int d = -farthest; d <= farthest; ++d) {
    const int apart = std::abs(d), bucket = apart <= straight ? apart : straight + (apart - straight + 1) / 2;
    place_of.push_back(places / 2 + (d < 0 ? -bucket : bucket));
  }
  const int* place = place_of.data() + farthest;
  for (const int tokens : {1, 3, 16, 17, 50, 131}) {
    for (const int first : {0, 64}) {
      const int rows = std::min(tokens, 37);
      const size_t stride = places, bias_stride = static_cast<size_t>(tokens) + 2;
      const std::vector<float> of_query = random_values(cells(rows, places), 51),
                               of_key = random_values(cells(tokens, places), 52);
      std::vector<float> want(static_cast<size_t>(rows) * bias_stride, 7), got = want;
      for (int r = 0; r < rows; ++r) {
        for (int t = 0; t < tokens; ++t) {
          const auto at = static_cast<size_t>(place[first + r - t]);
          want[static_cast<size_t>(r) * bias_stride + static_cast<size_t>(t)] =
              of_query[static_cast<size_t>(r) * stride + (stride - 1 - at)] +
              of_key[static_cast<size_t>(t) * stride + at];
        }
      }
      table.add_distances({.of_query = of_query.data(),
                           .of_key = of_key.data(),
                           .stride = stride,
                           .place = place,
                           .places = places,
                           .straight = straight,
                           .bias = got.data(),
                           .bias_stride = bias_stride,
                           .first = first,
                           .rows = rows,
                           .tokens = tokens});
      ASSERT_EQ(bits_of(got), bits_of(want)) << tokens << " tokens from " << first;
    }
  }
}

TEST_P(RowsTest, PacksBf16Rows) {
  if (!table.bf16) GTEST_SKIP() << "a table without bf16";
  for (const int columns : {5, 32, 64, 77}) {
    const int rows = 19;
    const auto stride = static_cast<size_t>(columns) + 4;
    std::vector<float> floats = random_values(static_cast<size_t>(rows) * stride, 61);
    std::vector<uint16_t> half;
    for (const float value : floats) half.push_back(float_to_bf16(value));
    const PackedOperand want(table, Precision::bf16, rows, columns), got(table, Precision::bf16, rows, columns);
    table.pack_rows(floats.data(), stride, want.operand, 0, rows);
    table.pack_bf16_rows(half.data(), stride, got.operand, 0, 7);
    table.pack_bf16_rows(half.data(), stride, got.operand, 7, rows - 7);
    EXPECT_EQ(bits_of(values_of(table, got.operand)), bits_of(values_of(table, want.operand))) << columns << " columns";
  }
}

// One row of a head.

TEST_P(RowsTest, DotMatchesPlainLoop) {
  for (const int n : {1, 3, 16, 37, 64, 131, 768}) {
    const std::vector<float> a = random_values(static_cast<size_t>(n), 31),
                             b = random_values(static_cast<size_t>(n), 32);
    double want = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      want += static_cast<double>(a[i]) * b[i];
      size += std::fabs(static_cast<double>(a[i]) * b[i]);
    }
    EXPECT_NEAR(table.dot(a.data(), b.data(), n), want, 1e-6 * size) << n << " values";
  }
}

TEST_P(RowsTest, TanhMatchesLibrary) {
  std::vector<float> values = {0, -0.0F, 1e-6F, 0.5F, -0.5F, 3, -9, 44, -44, 1e4F, -1e4F};
  for (int i = -600; i <= 600; ++i) values.push_back(static_cast<float>(i) * 0.0171F);
  for (const size_t n : {size_t{1}, size_t{7}, values.size()}) {
    std::vector<float> got(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
    got.push_back(7);
    table.tanh(got.data(), static_cast<int>(n));
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(got[i], std::tanh(static_cast<double>(values[i])), 3e-7) << values[i];
    EXPECT_EQ(got[n], 7) << "behind the last value";
  }
}

// Readers.

TEST_P(RowsTest, ReaderMatchesReference) {
  for (const int columns : {1, 8, 37, 64, 131, 384}) {
    for (const int tokens : {1, 2, 9, 130, 512}) {
      const std::vector<float> rows = random_values(cells(tokens, columns), 21);
      const std::vector<float> query = random_values(static_cast<size_t>(columns), 22, 0.3F);
      const std::vector<float> want = reader_input(rows, query);
      std::vector<float> scores(static_cast<size_t>(tokens)), got(static_cast<size_t>(columns), NAN);
      table.read({.rows = rows.data(),
                  .stride = static_cast<size_t>(columns),
                  .tokens = tokens,
                  .columns = columns,
                  .query = query.data(),
                  .scores = scores.data(),
                  .out = got.data()});
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[static_cast<size_t>(columns) + i], 2e-5F)
            << columns << " columns, " << tokens << " tokens, element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace exeunt
