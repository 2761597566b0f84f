// SPDX-License-Identifier: Apache-2.0
// Every table that runs here, against plain loops at odd sizes, and the promise that a row of a result depends on
// nothing but its own input.
#include <cmath>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "tests/unit/engine/cpu/kernel_cases.h"

namespace exeunt {
namespace {

INSTANTIATE_TEST_SUITE_P(Tables, TableTest, testing::ValuesIn(running_kernels()),
                         [](const auto& tested) { return std::string(tested.param->name); });

// The outcome of one way through multiply, in fp32 whatever it was written as.
struct Way {
  Finish finish = Finish::store;
  Activation activation = Activation::gelu;
  Precision next = Precision::fp32;  // of activate_next and gate_next

  [[nodiscard]] bool gates() const { return finish == Finish::gate || finish == Finish::gate_next; }
  [[nodiscard]] bool to_next() const { return finish == Finish::activate_next || finish == Finish::gate_next; }
  [[nodiscard]] bool reads_out() const { return finish == Finish::add || gates(); }
};

std::vector<Way> ways(const Kernels& table, Precision precision) {
  std::vector<Way> out = {{.finish = Finish::store}, {.finish = Finish::add}};
  for (const Activation activation : {Activation::gelu, Activation::gelu_new, Activation::relu}) {
    out.push_back({.finish = Finish::activate, .activation = activation});
    if (precision != Precision::int8 || !table.bf16) {
      out.push_back({.finish = Finish::activate_next, .activation = activation});
    }
    if (table.bf16) {
      out.push_back({.finish = Finish::activate_next, .activation = activation, .next = Precision::bf16});
    }
  }
  if (table.bf16) out.push_back({.finish = Finish::store_bf16});
  out.push_back({.finish = Finish::gate});
  out.push_back({.finish = Finish::gate_next});
  if (table.bf16) out.push_back({.finish = Finish::gate_next, .next = Precision::bf16});
  return out;
}

std::string describe(Precision precision, const Way& way, const ProductShape& shape) {
  return std::string(name_of(precision)) + ", finish " + std::to_string(static_cast<int>(way.finish)) + " " +
         std::string(word_of(way.activation)) + " next " + std::string(name_of(way.next)) + ": " +
         testing::PrintToString(shape);
}

// What was in `out` before, for those that read it.
float before(int row, int column) {
  return static_cast<float>(row % 7) - 0.5F * static_cast<float>(column % 5);
}

// Rows and panels of a product are computed in parts of at most this many.
struct Cut {
  int rows = 1 << 30, panels = 1 << 30;
};

struct Outputs {
  Outputs(const Kernels& table, const ProductShape& shape, const Way& way)
      : stride(static_cast<size_t>(shape.outputs) + 3),
        floats(static_cast<size_t>(shape.rows) * stride),
        bf16(floats.size(), 0xffff),
        next(table, way.next, shape.rows, shape.outputs) {}
  size_t stride;
  std::vector<float> floats;
  std::vector<uint16_t> bf16;
  PackedOperand next;
};

std::vector<float> collect(const Kernels& table, const Outputs& out, const ProductShape& shape, const Way& way) {
  if (way.to_next()) return values_of(table, out.next.operand);
  std::vector<float> values;
  for (int r = 0; r < shape.rows; ++r) {
    for (int c = 0; c < shape.outputs; ++c) {
      const size_t at = static_cast<size_t>(r) * out.stride + static_cast<size_t>(c);
      values.push_back(way.finish == Finish::store_bf16 ? bf16_to_float(out.bf16[at]) : out.floats[at]);
    }
  }
  return values;
}

std::vector<float> run(const Kernels& table, const ProductCase& c, const Way& way, const Packed& packed, Cut cut = {}) {
  const auto [rows, inputs, outputs] = c.shape;
  const PackedOperand input(table, c.precision, rows, inputs);
  for (int row = 0; row < rows; row += std::min(rows, cut.rows)) {
    table.pack_rows(c.x.data(), static_cast<size_t>(inputs), input.operand, row, std::min(cut.rows, rows - row));
  }
  Outputs out(table, c.shape, way);
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < outputs; ++n) {
      out.floats[static_cast<size_t>(r) * out.stride + static_cast<size_t>(n)] = way.reads_out() ? before(r, n) : NAN;
    }
  }
  const int panels = panels_of(table, packed.weight);
  // Later parts first: the order of parts must not matter either.
  for (int row = (rows - 1) / std::min(rows, cut.rows) * std::min(rows, cut.rows); row >= 0; row -= cut.rows) {
    for (int panel = 0; panel < panels; panel += std::min(panels, cut.panels)) {
      void* to = way.finish == Finish::store_bf16 ? static_cast<void*>(out.bf16.data()) : out.floats.data();
      table.multiply({.weight = &packed.weight,
                      .input = input.operand,
                      .finish = way.finish,
                      .activation = way.activation,
                      .out = to,
                      .stride = out.stride,
                      .next = out.next.operand,
                      .row = row,
                      .rows = std::min(cut.rows, rows - row),
                      .panel = panel,
                      .panels = std::min(cut.panels, panels - panel)});
    }
  }
  return collect(table, out, c.shape, way);
}

double activated(Activation activation, double y) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * y * (1 + std::erf(y / std::sqrt(2.0)));
    case Activation::gelu_new:
      return 0.5 * y * (1 + std::tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)));
    case Activation::relu:
      break;
  }
  return std::max(y, 0.0);
}

void expect_near(const std::vector<float>& got, const Expected& product, const ProductCase& c, const Way& way) {
  ASSERT_EQ(got.size(), product.value.size());
  const bool activates = way.finish == Finish::activate || way.finish == Finish::activate_next;
  const bool to_bf16 = way.finish == Finish::store_bf16 || (way.to_next() && way.next == Precision::bf16);
  // What an int8 product activates is quantised next: a cheaper formula will do.
  const bool rough = c.precision == Precision::int8 && way.finish == Finish::activate;
  for (size_t i = 0; i < got.size(); ++i) {
    double want = product.value[i], tolerance = product.tolerance[i];
    if (activates) {
      want = activated(way.activation, want);
      tolerance = 1.2 * tolerance + (rough ? 2e-4 : 1e-6) * std::max(1.0, std::abs(product.value[i]));
    }
    const auto outputs = static_cast<size_t>(c.shape.outputs);
    const double old = static_cast<double>(before(static_cast<int>(i / outputs), static_cast<int>(i % outputs)));
    if (way.finish == Finish::add) {
      want += old;
      tolerance += 1e-6;
    }
    if (way.gates()) {
      want *= old;
      tolerance = tolerance * std::abs(old) + 1e-6 * std::abs(want);
    }
    if (to_bf16) tolerance += std::abs(want) / 256;
    ASSERT_NEAR(static_cast<double>(got[i]), want, tolerance) << "element " << i;
  }
}

// 1 to 33 rows in sizes that are multiples of nothing, then larger and degenerate ones.
std::vector<ProductShape> product_shapes() {
  std::vector<ProductShape> shapes;
  for (int rows = 1; rows <= 33; ++rows) shapes.push_back({.rows = rows, .inputs = 37, .outputs = 53});
  for (const ProductShape& shape :
       {ProductShape{127, 131, 97}, ProductShape{5, 1, 1}, ProductShape{3, 2, 2}, ProductShape{2, 768, 3},
        ProductShape{66, 64, 96}, ProductShape{17, 200, 129}, ProductShape{130, 4200, 33}}) {
    shapes.push_back(shape);
  }
  return shapes;
}

TEST_P(TableTest, ProductMatchesPlainLoops) {
  for (const Precision precision : precisions_of(table)) {
    for (const ProductShape& shape : product_shapes()) {
      const ProductCase c = random_product(precision, shape);
      const Expected expected = expected_product(c);
      const Packed packed(table, precision, shape, c.weight.data(), c.bias.data());
      for (const Way& way : ways(table, precision)) {
        SCOPED_TRACE(describe(precision, way, shape));
        ASSERT_NO_FATAL_FAILURE(expect_near(run(table, c, way, packed), expected, c, way));
      }
    }
  }
}

TEST_P(TableTest, SplitProductIsBitEqual) {
  for (const Precision precision : precisions_of(table)) {
    for (const ProductShape& shape : {ProductShape{45, 70, 131}, ProductShape{33, 129, 64}, ProductShape{7, 31, 200}}) {
      const ProductCase c = random_product(precision, shape);
      const Packed packed(table, precision, shape, c.weight.data(), c.bias.data());
      for (const Way& way : ways(table, precision)) {
        SCOPED_TRACE(describe(precision, way, shape));
        const std::vector<uint32_t> whole = bits_of(run(table, c, way, packed));
        for (const Cut cut : {Cut{.rows = 1, .panels = 1}, Cut{.rows = 5, .panels = 2}, Cut{.rows = 16},
                              Cut{.rows = table.row_block(precision)}, Cut{.panels = 3}}) {
          ASSERT_EQ(bits_of(run(table, c, way, packed, cut)), whole)
              << cut.rows << " rows, " << cut.panels << " panels";
        }
      }
    }
  }
}

TEST_P(TableTest, SingleRowIsBitEqualToRowOfBatch) {
  for (const Precision precision : precisions_of(table)) {
    const ProductShape shape{.rows = 41, .inputs = 133, .outputs = 101};
    const ProductCase c = random_product(precision, shape);
    const Packed packed(table, precision, shape, c.weight.data(), c.bias.data());
    for (const Way& way : ways(table, precision)) {
      if (way.reads_out()) continue;  // what they read depends on the row here
      const std::vector<uint32_t> whole = bits_of(run(table, c, way, packed));
      for (int r = 0; r < shape.rows; ++r) {
        SCOPED_TRACE(describe(precision, way, shape) + ", row " + std::to_string(r));
        ProductCase alone = c;
        alone.shape.rows = 1;
        alone.x.assign(c.x.begin() + r * shape.inputs, c.x.begin() + (r + 1) * shape.inputs);
        const auto from = whole.begin() + r * shape.outputs;
        ASSERT_EQ(bits_of(run(table, alone, way, packed)), std::vector<uint32_t>(from, from + shape.outputs));
      }
    }
  }
}

TEST_P(TableTest, ZeroRowsAndWeightsGiveBias) {
  for (const Precision precision : precisions_of(table)) {
    const ProductShape shape{.rows = 3, .inputs = 20, .outputs = 9};
    ProductCase c = random_product(precision, shape);
    std::fill(c.x.begin(), c.x.begin() + shape.inputs, 0.0F);
    std::fill(c.weight.begin() + shape.inputs, c.weight.begin() + 2 * shape.inputs, 0.0F);
    const Packed packed(table, precision, shape, c.weight.data(), c.bias.data());
    const std::vector<float> got = run(table, c, {}, packed);
    for (int n = 0; n < shape.outputs; ++n) EXPECT_EQ(got[static_cast<size_t>(n)], c.bias[static_cast<size_t>(n)]);
    for (int r = 0; r < shape.rows; ++r) EXPECT_EQ(got[cells(r, shape.outputs) + 1], c.bias[1]);
  }
}

TEST_P(TableTest, Int8SumsAreExactAtExtremes) {
  // Every value ±127: the largest sums there can be, and the place where narrow intermediate sums would saturate.
  const ProductShape shape{.rows = 18, .inputs = 3072, .outputs = 50};
  ProductCase c = random_product(Precision::int8, shape);
  for (size_t i = 0; i < c.x.size(); ++i) c.x[i] = i / 3072 % 2 == 0 ? 1.0F : -1.0F;
  for (size_t i = 0; i < c.weight.size(); ++i) c.weight[i] = i / 3072 % 3 == 0 ? -2.0F : 2.0F;
  std::fill(c.bias.begin(), c.bias.end(), 0.0F);
  const Packed packed(table, Precision::int8, shape, c.weight.data(), c.bias.data());
  const std::vector<float> got = run(table, c, {}, packed);
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = 6144.0 * (i / 50 % 2 == 0 ? 1 : -1) * (i % 50 % 3 == 0 ? -1 : 1);
    ASSERT_NEAR(static_cast<double>(got[i]), want, 2e-3) << "element " << i;
  }
}

// Attention.

struct AttentionCase {
  Precision precision = Precision::fp32;
  int tokens = 0, heads = 0, width = 0, window = 0;
  std::vector<float> qkv = {};  // [tokens, 3 · hidden]
  std::vector<uint16_t> bf16 = {};

  [[nodiscard]] int hidden() const { return heads * width; }
  [[nodiscard]] size_t stride() const { return static_cast<size_t>(3 * hidden()); }
  [[nodiscard]] const void* part(int i) const {
    const auto column = static_cast<size_t>(i * hidden());
    return precision == Precision::fp32 ? static_cast<const void*>(qkv.data() + column) : bf16.data() + column;
  }
};

AttentionCase random_attention(Precision precision, int tokens, int heads, int width) {
  AttentionCase c{.precision = precision, .tokens = tokens, .heads = heads, .width = width};
  c.qkv = random_values(static_cast<size_t>(tokens) * c.stride(), 11);
  for (float& value : c.qkv) {
    if (precision == Precision::bf16) value = rounded_to_bf16(value);
    c.bf16.push_back(float_to_bf16(value));
  }
  return c;
}

struct AttentionPart {
  int head = 0, heads = 0, row = 0, rows = 0;
};

// The context of the wanted parts; rows of the others stay NaN.
std::vector<float> run_attention(const Kernels& table, const AttentionCase& c, const std::vector<AttentionPart>& parts,
                                 std::optional<Precision> next = {}) {
  const KernelBuffer scratch(table.attention_scratch(c.precision, c.tokens, c.width));
  std::vector<float> context(cells(c.tokens, c.hidden()), NAN);
  const int before = 3;  // rows of another text in front of this one
  const PackedOperand operand(table, next.value_or(Precision::fp32), c.tokens + before, c.hidden());
  if (next) {
    const std::vector<float> zeros(cells(before, c.hidden()));
    table.pack_rows(zeros.data(), static_cast<size_t>(c.hidden()), operand.operand, 0, before);
  }
  for (const AttentionPart& part : parts) {
    table.attend({.precision = c.precision,
                  .query = c.part(0),
                  .key = c.part(1),
                  .value = c.part(2),
                  .stride = c.stride(),
                  .head_width = c.width,
                  .tokens = c.tokens,
                  .window = c.window,
                  .context = next ? nullptr : context.data(),
                  .context_stride = static_cast<size_t>(c.hidden()),
                  .next = operand.operand,
                  .next_row = before,
                  .head = part.head,
                  .heads = part.heads,
                  .row = part.row,
                  .rows = part.rows,
                  .scratch = scratch.data()});
  }
  if (!next) return context;
  std::vector<float> values = values_of(table, operand.operand);
  values.erase(values.begin(), values.begin() + before * c.hidden());
  return values;
}

std::vector<float> expected_attention(const AttentionCase& c) {
  const auto hidden = static_cast<size_t>(c.hidden());
  std::vector<std::vector<float>> parts(3);
  for (size_t t = 0; t < static_cast<size_t>(c.tokens); ++t) {
    for (size_t i = 0; i < 3; ++i) {
      const auto from = c.qkv.begin() + static_cast<ptrdiff_t>(t * c.stride() + i * hidden);
      parts[i].insert(parts[i].end(), from, from + static_cast<ptrdiff_t>(hidden));
    }
  }
  return attend({.query = parts[0],
                 .key = parts[1],
                 .value = parts[2],
                 .hidden = c.hidden(),
                 .heads = c.heads,
                 .window = c.window});
}

std::vector<Precision> attention_precisions(const Kernels& table) {
  if (table.bf16) return {Precision::fp32, Precision::bf16};
  return {Precision::fp32};
}

TEST_P(TableTest, AttentionMatchesReference) {
  for (const Precision precision : attention_precisions(table)) {
    for (const int width : {8, 32, 64, 20}) {
      for (const int tokens : {1, 2, 7, 16, 17, 31, 33, 64, 65, 130}) {
        const AttentionCase c = random_attention(precision, tokens, 3, width);
        const std::vector<float> want = expected_attention(c);
        const std::vector<float> got = run_attention(table, c, {{.heads = 3, .rows = tokens}});
        // In bf16 the shares of the tokens are rounded too, each by up to 1/256 of itself.
        const float tolerance = precision == Precision::fp32 ? 5e-6F : 2e-2F;
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], tolerance)
              << name_of(precision) << ", width " << width << ", " << tokens << " tokens, element " << i;
        }
      }
    }
  }
}

TEST_P(TableTest, AttentionMatchesReferenceForLongTexts) {
  for (const Precision precision : attention_precisions(table)) {
    const AttentionCase c = random_attention(precision, 512, 1, 64);
    const std::vector<float> want = expected_attention(c);
    const std::vector<float> got = run_attention(table, c, {{.heads = 1, .rows = 512}});
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], precision == Precision::fp32 ? 5e-6F : 1e-2F) << "element " << i;
    }
  }
}

// Keys beyond the window have no share at all, not a tiny one.
TEST_P(TableTest, AttentionIgnoresKeysBeyondWindow) {
  constexpr int tokens = 97, rows = 8;
  for (const Precision precision : attention_precisions(table)) {
    for (const int window : {1, 7, 30}) {
      for (const int row : {0, 41, tokens - rows}) {
        AttentionCase c = random_attention(precision, tokens, 3, 20);
        c.window = window;
        const std::vector<float> want = expected_attention(c);
        const std::vector<float> got = run_attention(table, c, {{.heads = 3, .row = row, .rows = rows}});
        for (size_t i = cells(row, c.hidden()); i < cells(row + rows, c.hidden()); ++i) {
          ASSERT_NEAR(got[i], want[i], precision == Precision::fp32 ? 5e-6F : 2e-2F) << "element " << i;
        }
        for (int t = 0; t < tokens; ++t) {
          if (t >= row - window && t < row + rows + window) continue;
          for (size_t i = 2 * static_cast<size_t>(c.hidden()); i < c.stride(); ++i) {
            const size_t at = static_cast<size_t>(t) * c.stride() + i;
            c.qkv[at] = 3e38F;
            c.bf16[at] = float_to_bf16(3e38F);
          }
        }
        EXPECT_EQ(bits_of(run_attention(table, c, {{.heads = 3, .row = row, .rows = rows}})), bits_of(got))
            << name_of(precision) << ", window " << window << ", row " << row;
      }
    }
  }
}

TEST_P(TableTest, SplitAttentionIsBitEqual) {
  for (const Precision precision : attention_precisions(table)) {
    for (const int tokens : {1, 19, 50, 97}) {
      const AttentionCase c = random_attention(precision, tokens, 4, 32);
      const std::vector<uint32_t> whole = bits_of(run_attention(table, c, {{.heads = 4, .rows = tokens}}));
      for (const int rows : {1, 5, 16, 32}) {
        std::vector<AttentionPart> parts;
        for (int row = (tokens - 1) / rows * rows; row >= 0; row -= rows) {
          parts.push_back({.head = 0, .heads = 1, .row = row, .rows = std::min(rows, tokens - row)});
          parts.push_back({.head = 1, .heads = 3, .row = row, .rows = std::min(rows, tokens - row)});
        }
        ASSERT_EQ(bits_of(run_attention(table, c, parts)), whole)
            << name_of(precision) << ", " << tokens << " tokens, " << rows << " rows at a time";
      }
    }
  }
}

TEST_P(TableTest, AttentionWritesNextOperand) {
  for (const Precision precision : attention_precisions(table)) {
    for (const int tokens : {1, 18, 40}) {
      const AttentionCase c = random_attention(precision, tokens, 3, 20);
      const std::vector<float> context = run_attention(table, c, {{.heads = 3, .rows = tokens}});
      const std::vector<AttentionPart> parts = {{.head = 1, .heads = 2, .rows = tokens}, {.heads = 1, .rows = tokens}};
      for (const Precision next : attention_precisions(table)) {
        std::vector<float> want = context;
        if (next == Precision::bf16) std::transform(want.begin(), want.end(), want.begin(), rounded_to_bf16);
        EXPECT_EQ(bits_of(run_attention(table, c, parts, next)), bits_of(want))
            << name_of(precision) << " into " << name_of(next) << ", " << tokens << " tokens";
      }
    }
  }
}

}  // namespace
}  // namespace exeunt
