// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/tensor.h"

#include <array>
#include <cstring>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/half.h"

namespace exeunt {
namespace {

struct TypeRow {
  DType type;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<TypeRow, 10> kTypes{{{DType::f64, "F64", 8},
                                          {DType::f32, "F32", 4},
                                          {DType::f16, "F16", 2},
                                          {DType::bf16, "BF16", 2},
                                          {DType::i64, "I64", 8},
                                          {DType::i32, "I32", 4},
                                          {DType::i16, "I16", 2},
                                          {DType::i8, "I8", 1},
                                          {DType::u8, "U8", 1},
                                          {DType::boolean, "BOOL", 1}}};

const TypeRow& row_of(DType type) noexcept {
  return kTypes[static_cast<size_t>(type)];
}

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float load_float(DType type, const std::byte* from) noexcept {
  switch (type) {
    case DType::f64:
      return static_cast<float>(load<double>(from));
    case DType::f16:
      return fp16_to_float(load<uint16_t>(from));
    case DType::bf16:
      return bf16_to_float(load<uint16_t>(from));
    default:
      return load<float>(from);
  }
}

// Calls visit(index of element in the bytes) for every element in row-major order.
template <class Visit>
void for_each_element(const TensorView& view, Visit&& visit) {
  const int64_t elements = view.elements();
  if (view.contiguous()) {
    for (int64_t i = 0; i < elements; ++i) visit(i);
    return;
  }
  std::vector<int64_t> index(view.shape.size(), 0);
  int64_t place = 0;
  for (int64_t done = 0; done < elements; ++done) {
    visit(place);
    for (size_t axis = view.shape.size(); axis-- > 0;) {
      place += view.strides[axis];
      if (++index[axis] < view.shape[axis]) break;
      place -= view.strides[axis] * view.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

size_t size_of(DType type) noexcept {
  return row_of(type).bytes;
}
std::string_view name_of(DType type) noexcept {
  return row_of(type).name;
}

std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

bool is_floating(DType type) noexcept {
  return type == DType::f64 || type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

int64_t TensorView::elements() const noexcept {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  return count;
}

bool TensorView::contiguous() const noexcept {
  if (strides.empty()) return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

TensorView row_slice(const TensorView& view, int64_t first, int64_t count) {
  check(!view.shape.empty() && first >= 0 && count >= 0 && first + count <= view.shape[0],
        "row_slice: rows of the view");
  int64_t stride = 1;
  for (size_t axis = 1; axis < view.shape.size(); ++axis) stride *= view.shape[axis];
  if (!view.strides.empty()) stride = view.strides[0];
  TensorView part = view;
  part.shape[0] = count;
  part.bytes = view.bytes.subspan(static_cast<size_t>(first * stride) * size_of(view.dtype));
  if (view.strides.empty()) part.bytes = part.bytes.first(static_cast<size_t>(count * stride) * size_of(view.dtype));
  return part;
}

TensorView transposed(const TensorView& view) {
  check(view.shape.size() == 2, "only a matrix can be transposed");
  const bool plain = view.strides.empty();
  return {.dtype = view.dtype,
          .shape = {view.shape[1], view.shape[0]},
          .strides = {plain ? 1 : view.strides[1], plain ? view.shape[1] : view.strides[0]},
          .bytes = view.bytes};
}

void copy_to_float(const TensorView& view, std::span<float> out) {
  check(is_floating(view.dtype), "a tensor of whole numbers is not read as floats");
  check(static_cast<int64_t>(out.size()) == view.elements(), "as many places as elements");
  if (view.dtype == DType::f32) {
    copy_raw(view, std::as_writable_bytes(out));
    return;
  }
  const size_t bytes = size_of(view.dtype);
  size_t written = 0;
  for_each_element(view, [&](int64_t i) {
    out[written++] = load_float(view.dtype, view.bytes.data() + static_cast<size_t>(i) * bytes);
  });
}

void copy_raw(const TensorView& view, std::span<std::byte> out) {
  const size_t bytes = size_of(view.dtype);
  check(out.size() == static_cast<size_t>(view.elements()) * bytes, "as many bytes as the elements take");
  if (out.empty()) return;
  if (view.contiguous()) {
    std::memcpy(out.data(), view.bytes.data(), out.size());
    return;
  }
  std::byte* to = out.data();
  for_each_element(view, [&](int64_t i) {
    std::memcpy(to, view.bytes.data() + static_cast<size_t>(i) * bytes, bytes);
    to += bytes;
  });
}

std::vector<float> to_floats(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elements()));
  copy_to_float(view, values);
  return values;
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const TensorView* TensorSet::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

}  // namespace exeunt
