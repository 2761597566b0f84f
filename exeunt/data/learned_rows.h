// SPDX-License-Identifier: Apache-2.0
// Which texts a model has learned, kept without the texts: salted hashes of their token ids. A promise tested on texts
// that were learned would not hold for new ones, so calibration checks this list first.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "exeunt/base/files.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/base/tensor.h"
#include "exeunt/data/features.h"
#include "exeunt/model/exeunt_folder.h"

namespace exeunt {

// Drawn once for each list, so that hashes of two lists cannot be compared with each other or looked up elsewhere.
using RowSalt = std::array<uint64_t, 2>;
[[nodiscard]] RowSalt draw_salt();

// Equal token ids, equal hashes.
[[nodiscard]] uint64_t row_hash(std::span<const int32_t> ids, const RowSalt& salt);

// The numbers are those of ExitTrace::learned.
enum class Overlap : uint8_t {
  none = 0,
  partial = 1,  // contains a learned text, or is contained in one: four tokens in a row at least
  equal = 2
};

// Rows are token ids as the model sees them, with one special token at each end, truncated as they were when learned.
class LearnedRows {
 public:
  using Row = std::span<const int32_t>;
  explicit LearnedRows(std::span<const Row> rows, int max_length, const RowSalt& salt = draw_salt());
  void add(std::span<const Row> rows, int max_length);  // rows of a later training

  [[nodiscard]] size_t size() const noexcept { return rows_.size(); }  // distinct ones
  // What rows were truncated to, special tokens included: a text is looked up at each of these lengths.
  [[nodiscard]] const std::vector<int64_t>& max_lengths() const noexcept { return max_lengths_; }

  // `partial` within a learned text is decided by a filter of all groups of four tokens: it misses none and is wrong
  // only where every group of a text happens to be taken for a learned one, each with a chance of about 1 %.
  [[nodiscard]] Overlap overlap(Row ids) const;

  // Throw Error (bad_file).
  [[nodiscard]] static LearnedRows read(const ReadPath& path);
  [[nodiscard]] static LearnedRows parse(std::span<const std::byte> safetensors, std::string_view where);
  void write(const std::filesystem::path& path) const;

 private:
  LearnedRows() = default;
  [[nodiscard]] static LearnedRows from(const TensorSet& set, const std::string& where);
  [[nodiscard]] bool lies_within(std::span<const uint64_t> prefixes) const;
  [[nodiscard]] bool contains_one(std::span<const uint64_t> prefixes) const;

  RowSalt salt_ = {};
  std::unordered_set<uint64_t, SecretHash> rows_ = {};  // whoever made the list chose its hashes
  std::vector<int64_t> lengths_ = {};                   // of learned texts of four tokens and more, each once, rising
  std::vector<int64_t> max_lengths_ = {};               // each once, rising
  std::vector<uint64_t> filter_ = {};  // Bloom filter over groups of four tokens; a power of two of words
};

// What the model in a folder has learned; nothing if the folder has no list. Throws Error (bad_file) if its list is
// damaged.
[[nodiscard]] std::optional<LearnedRows> learned_in(const std::filesystem::path& folder);

// What a model has learned that is trained on `rows`, starting from the model in the folder `base` with all that it had
// learned already. Throws Error (bad_file) if that folder's list is damaged.
[[nodiscard]] LearnedRows learned_rows(const Features& rows, const std::filesystem::path& base);

}  // namespace exeunt
