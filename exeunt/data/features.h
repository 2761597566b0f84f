// SPDX-License-Identifier: Apache-2.0
// A data set as token ids, rows packed without padding, and the files that store it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/safetensors.h"
#include "exeunt/data/dataset.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

// The origin of features. Hashes are sha256 in hex; empty = unknown.
struct FeatureInfo {
  std::string tokenizer, data;
  std::string task, split;
  std::vector<std::string> labels;  // the label order of gold; empty for regression
  int max_length = 0;               // special tokens included

  bool operator==(const FeatureInfo&) const = default;
};

struct Features {
  FeatureInfo info;
  std::vector<int32_t> ids;            // [tokens]
  std::vector<uint8_t> types;          // [tokens] 0 for the first text, 1 for the second
  std::vector<int64_t> offsets = {0};  // [rows + 1] where each row's tokens start
  std::vector<float> gold;             // [rows] label index or value; NaN = none
  std::vector<int64_t> index;          // [rows] row in the source
  // Rows that may have several labels: [rows, labels] 1 or 0; else empty.
  std::vector<float> sets = {};
  // Rows truncated to max_length, and how many tokens they lost; not stored in files.
  int64_t truncated = 0, lost_tokens = 0;

  [[nodiscard]] size_t rows() const noexcept { return gold.size(); }
  [[nodiscard]] size_t length(size_t row) const noexcept {
    return static_cast<size_t>(offsets[row + 1] - offsets[row]);
  }
  [[nodiscard]] std::span<const int32_t> ids_of(size_t row) const noexcept {
    return {ids.data() + offsets[row], length(row)};
  }
  [[nodiscard]] std::span<const uint8_t> types_of(size_t row) const noexcept {
    return {types.data() + offsets[row], length(row)};
  }
};

struct FeatureOptions {
  int max_length = 128;
  int threads = 0;             // 0 = one per processor; the result is the same for any number
  std::string tokenizer = {};  // its sha256, for the record
};

// How many tokens texts have before any is truncated: of all, or of so many spread evenly over the data.
inline constexpr size_t kLengthSample = 5000;
[[nodiscard]] std::vector<int> text_lengths(const Dataset& data, const Tokenizer& tokenizer,
                                            size_t most = kLengthSample);

// Tokenizes every example, in the order of the data.
[[nodiscard]] Features make_features(const Dataset& data, const Tokenizer& tokenizer, const FeatureOptions& options);

// "12 of 300 texts are longer than 128 tokens and lose 9 % of all tokens"; empty if none is.
[[nodiscard]] std::string truncation_text(const Features& features);

// Feature files store everything but what was truncated. Reading validates every offset, id and label. Throws Error
// bad_file.
void write_features(const std::filesystem::path& path, const Features& features);
[[nodiscard]] Features read_features(const std::filesystem::path& path);
[[nodiscard]] Features parse_features(std::span<const std::byte> safetensors, std::string_view where);

// The checks of read_features, for features in memory. `where` prefixes error messages.
void check_features(const Features& features, std::string_view where);

// The values of a tensor that is a list of this type and, if it is known, length. Throws Error (bad_file).
template <class Value>
[[nodiscard]] std::vector<Value> list_in(const TensorSet& set, std::string_view where, std::string_view name,
                                         DType type, int64_t length = -1) {
  const TensorView* view = set.find(name);
  if (view == nullptr) throw_bad_file(where, "lacks the tensor '{}'", name);
  if (view->dtype != type)
    throw_bad_file(where, "tensor '{}': got {}, want {}", name, name_of(view->dtype), name_of(type));
  if (view->shape.size() != 1 || (length >= 0 && view->shape[0] != length)) {
    throw_bad_file(where, "tensor '{}': got shape {}, want {}", name, shape_text(view->shape),
                   length < 0 ? "one side" : fmt::format("[{}]", length));
  }
  std::vector<Value> values(static_cast<size_t>(view->elements()));
  copy_raw(*view, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace exeunt
