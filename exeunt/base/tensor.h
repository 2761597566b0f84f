// SPDX-License-Identifier: Apache-2.0
// Tensors as stored in files: a type, a shape, and bytes owned by someone else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exeunt {

enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

[[nodiscard]] size_t size_of(DType type) noexcept;
[[nodiscard]] std::string_view name_of(DType type) noexcept;  // safetensors' name: "F32", "BF16", "BOOL" …
[[nodiscard]] std::optional<DType> dtype_named(std::string_view name) noexcept;
[[nodiscard]] bool is_floating(DType type) noexcept;

// A view of a tensor inside a file. Reading never copies: a transposed TensorFlow kernel or a strided PyTorch tensor
// stays in place and is described by `strides`.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;      // in elements; empty = row-major and contiguous
  std::span<const std::byte> bytes;  // from the first element on; may be unaligned

  [[nodiscard]] int64_t elements() const noexcept;
  [[nodiscard]] bool contiguous() const noexcept;
};

// Values in memory, which must outlive the view; without a shape, as a list.
template <class Value>
[[nodiscard]] TensorView view_of(DType type, const std::vector<Value>& values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  return {.dtype = type, .shape = std::move(shape), .strides = {}, .bytes = std::as_bytes(std::span(values))};
}

// The transposed view of the same bytes. `view` must have two dimensions.
[[nodiscard]] TensorView transposed(const TensorView& view);

// Rows [first, first + count) of the same bytes.
[[nodiscard]] TensorView row_slice(const TensorView& view, int64_t first, int64_t count);

// Elements in row-major order. `out` has exactly view.elements() elements.
void copy_to_float(const TensorView& view, std::span<float> out);  // any floating type, converted
void copy_raw(const TensorView& view, std::span<std::byte> out);   // elements() * size_of(dtype) bytes, unconverted
[[nodiscard]] std::vector<float> to_floats(const TensorView& view);
[[nodiscard]] std::string shape_text(std::span<const int64_t> shape);  // "[768, 3072]"

// Named tensors of one or several files, and the owners of their bytes.
struct TensorSet {
  std::map<std::string, TensorView, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<std::span<const std::byte>> mapped = {};  // those owners that are whole mapped files, for drop_pages()

  [[nodiscard]] const TensorView* find(std::string_view name) const;
};

}  // namespace exeunt
