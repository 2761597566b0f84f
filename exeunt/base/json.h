// SPDX-License-Identifier: Apache-2.0
// JSON from untrusted files, in time and memory linear in the text: excessive depth or size, duplicate keys and invalid
// UTF-8 are errors with a position.
// Objects are read strictly through JsonObject: an unknown field is an error that names the nearest known one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "exeunt/base/files.h"

namespace exeunt {

using Json = nlohmann::json;                 // for reading: lookup is fast in objects with 50,000 keys
using OrderedJson = nlohmann::ordered_json;  // for writing: keys keep their insertion order

inline constexpr int kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonMemory = size_t{64} << 20;

// What one document may cost its reader. The text `[[],[],…` takes thirty times its size in memory, so a limit of the
// text alone is no limit of memory.
struct JsonLimits {
  int depth = kMaxJsonDepth;
  size_t values = SIZE_MAX;         // of every kind, nested ones included
  size_t memory = kMaxJsonMemory;   // of the values, beyond the size of the text
  std::function<bool()> stop = {};  // asked now and then: true ends the parsing with an Error
};

// Parses one document. `where` (a file name) prefixes every error message; errors include line and column.
[[nodiscard]] Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});
// One document on one line (JSONL): `where` names that line, errors include only the column.
[[nodiscard]] Json parse_json_line(std::string_view line, std::string_view where);
// A configuration, which with all its values takes at most the size of the file and 64 MiB.
inline constexpr size_t kMaxJsonFile = size_t{16} << 20;
[[nodiscard]] JsonLimits limits_of_file(size_t bytes) noexcept;  // that stays mapped meanwhile
// With a `limit` beyond that of a configuration, the values may take the size of the text and 64 MiB.
[[nodiscard]] Json read_json(const ReadPath& path, size_t limit = kMaxJsonFile);
// What a file in a folder has under these names, each inside the one before: null where there is no such file or value.
[[nodiscard]] Json json_in(const std::filesystem::path& folder, const char* file,
                           std::initializer_list<const char*> names = {});

// JSON that is read and written again in its order, such as logs that are continued. As strict and as linear: the
// library's own reader of ordered JSON looks through an object for each of its names.
[[nodiscard]] OrderedJson parse_ordered_json(std::string_view text, std::string_view where);
[[nodiscard]] OrderedJson read_ordered_json(const ReadPath& path, size_t limit);  // of bytes

// Two-space indentation and a final newline.
[[nodiscard]] std::string json_text(const OrderedJson& value);

// Reads the fields of one object by name and type, remembers which were read, and finish() rejects the rest.
// Wrong types and ranges are errors: "config.json: field 'hidden_size': got -3, want a whole number from 1 to 65536".
class JsonObject {
 public:
  // `partial`: the object changes some fields of what is already there, so none is required (see fields.h).
  JsonObject(const Json& value, std::string where, bool partial = false);

  [[nodiscard]] bool has(std::string_view name) const;  // present and not null
  [[nodiscard]] int64_t integer(std::string_view name, int64_t low, int64_t high);
  [[nodiscard]] int64_t integer_or(std::string_view name, int64_t low, int64_t high, int64_t absent);
  [[nodiscard]] double number(std::string_view name);  // finite
  [[nodiscard]] double number_or(std::string_view name, double absent);
  [[nodiscard]] bool boolean_or(std::string_view name, bool absent);
  [[nodiscard]] std::string string(std::string_view name);
  [[nodiscard]] std::string string_or(std::string_view name, std::string absent);
  [[nodiscard]] std::vector<std::string> strings(std::string_view name);
  // One of `allowed`; the error suggests the nearest.
  [[nodiscard]] std::string choice(std::string_view name, const std::vector<std::string>& allowed);
  [[nodiscard]] const Json* find(std::string_view name);  // null pointer if absent or null
  [[nodiscard]] const Json& get(std::string_view name);   // error if absent
  void ignore(std::string_view name);                     // known, but not needed here
  void finish() const;                                    // error if a field was never read
  [[nodiscard]] int unread() const;                       // how many fields were never read

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] bool partial() const noexcept { return partial_; }
  [[noreturn]] void fail(std::string_view name, std::string_view got, std::string_view want) const;

 private:
  const Json& value_;
  std::string where_;
  bool partial_;
  std::vector<std::string> asked_;
};

// A short description of a JSON value for error messages: "-3", "\"abc\"", "a list".
[[nodiscard]] std::string glimpse(const Json& value);

}  // namespace exeunt
