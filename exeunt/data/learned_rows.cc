// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/learned_rows.h"

#include <algorithm>
#include <bit>
#include <random>

#include "exeunt/base/error.h"
#include "exeunt/base/random.h"
#include "exeunt/base/safetensors.h"

namespace exeunt {
namespace {

constexpr size_t kGroup = 4;          // tokens in a row that make two texts overlap
constexpr int kProbes = 7;            // of the filter: with ten bits a group about 1 % are wrong
constexpr size_t kBitsPerGroup = 10;  // at least; the filter's size is a power of two
// A file with more would have every text tokenized that often, and every stretch of it looked for.
constexpr size_t kMaxTrainings = 256;           // with different max-lengths
constexpr int64_t kLongest = int64_t{1} << 20;  // tokens

uint64_t base_of(const RowSalt& salt) {
  return salt[1] | 1;  // odd, so that no power of it vanishes
}

std::span<const int32_t> without_specials(std::span<const int32_t> ids) {
  return ids.size() < 2 ? ids : ids.subspan(1, ids.size() - 2);
}

// Polynomial hashes of the first 0, 1, 2 … tokens: any stretch of tokens can be hashed from two of them.
std::vector<uint64_t> prefixes_of(std::span<const int32_t> ids, const RowSalt& salt) {
  std::vector<uint64_t> prefixes{0};
  prefixes.reserve(ids.size() + 1);
  for (const int32_t id : ids)
    prefixes.push_back(prefixes.back() * base_of(salt) + mix_bits(static_cast<uint32_t>(id) + salt[0]));
  return prefixes;
}

struct Stretch {
  size_t begin, length;
};

uint64_t hash_of(std::span<const uint64_t> prefixes, Stretch stretch, uint64_t power, const RowSalt& salt) {
  const uint64_t polynomial = prefixes[stretch.begin + stretch.length] - prefixes[stretch.begin] * power;
  return mix_bits(polynomial + mix_bits(stretch.length + salt[1]));
}

uint64_t power_of(const RowSalt& salt, size_t exponent) {
  uint64_t power = 1;
  for (size_t i = 0; i < exponent; ++i) power *= base_of(salt);
  return power;
}

// Calls `visit` with the hash of every stretch of `length` tokens until it returns true.
template <class Visit>
bool any_stretch(std::span<const uint64_t> prefixes, size_t length, const RowSalt& salt, const Visit& visit) {
  if (length >= prefixes.size()) return false;
  const uint64_t power = power_of(salt, length);
  for (size_t begin = 0; begin + length < prefixes.size(); ++begin)
    if (visit(hash_of(prefixes, {begin, length}, power, salt))) return true;
  return false;
}

// The nth bit of a group in a filter of a power of two of words.
size_t probe(uint64_t hash, int nth, size_t words) {
  return (hash + static_cast<uint64_t>(nth) * ((hash >> 32) | 1)) & (64 * words - 1);
}

void add_number(std::vector<int64_t>& rising, int64_t number) {
  const auto place = std::lower_bound(rising.begin(), rising.end(), number);
  if (place == rising.end() || *place != number) rising.insert(place, number);
}

}  // namespace

RowSalt draw_salt() {
  std::random_device device;
  const auto word = [&] { return (uint64_t{device()} << 32) | device(); };
  return {word(), word()};
}

uint64_t row_hash(std::span<const int32_t> ids, const RowSalt& salt) {
  const std::span<const int32_t> inner = without_specials(ids);
  return hash_of(prefixes_of(inner, salt), {0, inner.size()}, 0, salt);  // prefix 0 is 0, whatever its power
}

LearnedRows::LearnedRows(std::span<const Row> rows, int max_length, const RowSalt& salt) : salt_(salt), filter_(1) {
  add(rows, max_length);
}

void LearnedRows::add(std::span<const Row> rows, int max_length) {
  add_number(max_lengths_, max_length);
  size_t groups = 0;
  for (const Row& row : rows) {
    const size_t tokens = without_specials(row).size();
    if (!rows_.insert(row_hash(row, salt_)).second || tokens < kGroup) continue;
    add_number(lengths_, static_cast<int64_t>(tokens));
    groups += tokens - kGroup + 1;
  }
  // A group's bit is the remainder of a division by the filter's size, so a filter repeated still has it.
  const size_t words = std::bit_ceil(filter_.size() + groups * kBitsPerGroup / 64);
  for (const size_t before = filter_.size(); filter_.size() < words;)
    filter_.push_back(filter_[filter_.size() - before]);
  for (const Row& row : rows) {
    any_stretch(prefixes_of(without_specials(row), salt_), kGroup, salt_, [&](uint64_t hash) {
      for (int nth = 0; nth < kProbes; ++nth) {
        const size_t bit = probe(hash, nth, filter_.size());
        filter_[bit / 64] |= uint64_t{1} << (bit % 64);
      }
      return false;
    });
  }
}

bool LearnedRows::lies_within(std::span<const uint64_t> prefixes) const {
  return !any_stretch(prefixes, kGroup, salt_, [&](uint64_t hash) {
    for (int nth = 0; nth < kProbes; ++nth) {
      const size_t bit = probe(hash, nth, filter_.size());
      if ((filter_[bit / 64] >> (bit % 64) & 1) == 0) return true;  // a group that was not learned
    }
    return false;
  });
}

bool LearnedRows::contains_one(std::span<const uint64_t> prefixes) const {
  const auto longer = std::lower_bound(lengths_.begin(), lengths_.end(), static_cast<int64_t>(prefixes.size()));
  return std::any_of(lengths_.begin(), longer, [&](int64_t length) {
    return any_stretch(prefixes, static_cast<size_t>(length), salt_,
                       [&](uint64_t hash) { return rows_.contains(hash); });
  });
}

Overlap LearnedRows::overlap(Row ids) const {
  if (rows_.contains(row_hash(ids, salt_))) return Overlap::equal;
  const std::vector<uint64_t> prefixes = prefixes_of(without_specials(ids), salt_);
  if (prefixes.size() <= kGroup) return Overlap::none;
  return lies_within(prefixes) || contains_one(prefixes) ? Overlap::partial : Overlap::none;
}

LearnedRows LearnedRows::read(const ReadPath& path) {
  return from(read_safetensors(path), path.string());
}

LearnedRows LearnedRows::parse(std::span<const std::byte> safetensors, std::string_view where) {
  return from(parse_safetensors(safetensors, where), std::string(where));
}

LearnedRows LearnedRows::from(const TensorSet& set, const std::string& where) {
  LearnedRows learned;
  const auto numbers = [&](std::string_view name, int64_t count = -1) {
    return list_in<uint64_t>(set, where, name, DType::i64, count);
  };
  const std::vector<uint64_t> salt = numbers("salt", 2), rows = numbers("rows");
  std::copy(salt.begin(), salt.end(), learned.salt_.begin());
  learned.rows_.insert(rows.begin(), rows.end());
  const auto rising = [&](std::string_view name, int64_t least) {
    const std::vector<uint64_t> list = numbers(name);
    const std::vector<int64_t> values(list.begin(), list.end());
    const bool rise = std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
    if (!rise || (!values.empty() && (values.front() < least || values.back() > kLongest)))
      throw_bad_file(where, "tensor '{}': want rising numbers from {} to {}", name, least, kLongest);
    return values;
  };
  learned.lengths_ = rising("lengths", kGroup);
  learned.max_lengths_ = rising("max_lengths", 1);
  if (learned.max_lengths_.size() > kMaxTrainings)
    throw_bad_file(where, "tensor 'max_lengths': got {}, want at most {}", learned.max_lengths_.size(), kMaxTrainings);
  learned.filter_ = numbers("filter");
  if (!std::has_single_bit(learned.filter_.size()))
    throw_bad_file(where, "tensor 'filter': got {} words, want a power of two", learned.filter_.size());
  return learned;
}

void LearnedRows::write(const std::filesystem::path& path) const {
  std::vector<uint64_t> rows(rows_.begin(), rows_.end());
  std::sort(rows.begin(), rows.end());  // so that their order reveals nothing about the data
  const std::vector<uint64_t> salt(salt_.begin(), salt_.end());
  write_safetensors(path,
                    {{"salt", view_of(DType::i64, salt)},
                     {"rows", view_of(DType::i64, rows)},
                     {"lengths", view_of(DType::i64, lengths_)},
                     {"max_lengths", view_of(DType::i64, max_lengths_)},
                     {"filter", view_of(DType::i64, filter_)}},
                    {{"format", "exeunt.learned/1"}});
}

std::optional<LearnedRows> learned_in(const std::filesystem::path& folder) {
  if (folder.empty() || !path_exists(folder / kLearnedFile)) return std::nullopt;
  return with_hint("copy the model's folder again, or train it again",
                   [&] { return LearnedRows::read(ReadPath::in(folder, kLearnedFile)); });
}

LearnedRows learned_rows(const Features& features, const std::filesystem::path& base) {
  std::vector<LearnedRows::Row> rows;
  for (size_t row = 0; row < features.rows(); ++row) rows.push_back(features.ids_of(row));
  std::optional<LearnedRows> all = learned_in(base);
  if (!all) return LearnedRows(rows, features.info.max_length);
  all->add(rows, features.info.max_length);
  return *std::move(all);
}

}  // namespace exeunt
