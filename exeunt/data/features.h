// SPDX-License-Identifier: Apache-2.0
// A data set as token ids, rows packed one after the other without padding, and the files it is kept in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/tasks/dataset.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

// Where features come from. Hashes are sha256 in hex; empty = not known.
struct FeatureInfo {
  std::string tokenizer, data;
  std::string task, split;
  std::vector<std::string> labels;  // the order gold is in; none for a regression
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
  int64_t truncated = 0;               // rows cut to max_length; known only where the features were made

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
  int threads = 0;        // 0 = as many as the machine has; the result is the same with any number
  std::string tokenizer;  // its sha256, for the record
};

// Every example through the tokenizer, in the order of the data.
[[nodiscard]] Features make_features(const Dataset& data, const Tokenizer& tokenizer, const FeatureOptions& options);

// Feature files hold all but `truncated`. Reading checks every offset, id and label. Throws Error bad_file.
void write_features(const std::filesystem::path& path, const Features& features);
[[nodiscard]] Features read_features(const std::filesystem::path& path);
[[nodiscard]] Features parse_features(std::span<const std::byte> safetensors, std::string_view where);

// The checks of read_features, for features made in memory. `where` opens error messages.
void check_features(const Features& features, std::string_view where);

// Features from a file in `folder` that was made from the same data, tokenizer, labels and length, else made now and
// kept there. A file that is damaged is made again. The tokenizer's hash must be known.
[[nodiscard]] Features cached_features(const std::filesystem::path& folder, const Dataset& data,
                                       const Tokenizer& tokenizer, const FeatureOptions& options);

}  // namespace exeunt
