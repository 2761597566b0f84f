// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/tensor.h"

#include <array>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

std::vector<float> counted(size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(i);
  return out;
}

TEST(Tensor, TypesHaveNamesAndSizes) {
  const std::array<std::tuple<DType, const char*, size_t, bool>, 10> types = {{{DType::f64, "F64", 8, true},
                                                                               {DType::f32, "F32", 4, true},
                                                                               {DType::f16, "F16", 2, true},
                                                                               {DType::bf16, "BF16", 2, true},
                                                                               {DType::i64, "I64", 8, false},
                                                                               {DType::i32, "I32", 4, false},
                                                                               {DType::i16, "I16", 2, false},
                                                                               {DType::i8, "I8", 1, false},
                                                                               {DType::u8, "U8", 1, false},
                                                                               {DType::boolean, "BOOL", 1, false}}};
  for (const auto& [type, name, bytes, floating] : types) {
    EXPECT_EQ(name_of(type), name);
    EXPECT_EQ(size_of(type), bytes) << name;
    EXPECT_EQ(dtype_named(name), type) << name;
    EXPECT_EQ(is_floating(type), floating) << name;
  }
  EXPECT_FALSE(dtype_named("F8"));
}

TEST(Tensor, TransposedMatrixIsReadByColumns) {
  const std::vector<float> values = counted(6);
  const TensorView matrix = view_of(DType::f32, values, {2, 3});
  EXPECT_TRUE(matrix.contiguous());
  const TensorView turned = transposed(matrix);
  EXPECT_THAT(turned.shape, ElementsAre(3, 2));
  EXPECT_FALSE(turned.contiguous());
  EXPECT_THAT(to_floats(turned), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_TRUE(transposed(turned).contiguous());
  EXPECT_THAT(to_floats(transposed(turned)), ElementsAre(0, 1, 2, 3, 4, 5));
  const TensorView row = view_of(DType::f32, values, {1, 6});
  EXPECT_TRUE(transposed(row).contiguous()) << "one column";
}

TEST(Tensor, ReadsStridesOfThreeSides) {
  const std::vector<float> values = counted(24);
  TensorView view = view_of(DType::f32, values, {2, 2, 3});
  view.strides = {12, 1, 4};  // of [2, 3, 4], the last two exchanged
  EXPECT_FALSE(view.contiguous());
  EXPECT_THAT(to_floats(view), ElementsAre(0, 4, 8, 1, 5, 9, 12, 16, 20, 13, 17, 21));
  view.strides = {6, 3, 1};
  EXPECT_TRUE(view.contiguous());
}

TEST(Tensor, SlicesRows) {
  const std::vector<float> values = counted(12);
  const TensorView view = view_of(DType::f32, values, {3, 2, 2});
  const TensorView part = row_slice(view, 1, 2);
  EXPECT_THAT(part.shape, ElementsAre(2, 2, 2));
  EXPECT_EQ(part.bytes.size(), 32U);
  EXPECT_THAT(to_floats(part), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(row_slice(view, 3, 0).elements(), 0);
  const TensorView turned = transposed(view_of(DType::f32, values, {3, 4}));
  EXPECT_THAT(to_floats(row_slice(turned, 2, 2)), ElementsAre(2, 6, 10, 3, 7, 11));
}

TEST(Tensor, ConvertsEveryFloatingType) {
  const std::vector<double> wide = {1.5, -2};
  EXPECT_THAT(to_floats(view_of(DType::f64, wide)), ElementsAre(1.5F, -2.0F));
  const std::vector<uint16_t> half = {0x3e00, 0xc000}, brain = {0x3fc0, 0xc000};
  EXPECT_THAT(to_floats(view_of(DType::f16, half)), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(to_floats(view_of(DType::bf16, brain)), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(to_floats(transposed(view_of(DType::bf16, brain, {1, 2}))), ElementsAre(1.5F, -2.0F));
}

TEST(Tensor, CopiesBytesOfAnyType) {
  const std::vector<int16_t> values = {1, 2, 3, 4, 5, 6};
  std::vector<int16_t> out(6);
  copy_raw(transposed(view_of(DType::i16, values, {2, 3})), std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(shape_text(std::vector<int64_t>{768, 3072}), "[768, 3072]");
  EXPECT_EQ(shape_text({}), "[]");
}

}  // namespace
}  // namespace exeunt
