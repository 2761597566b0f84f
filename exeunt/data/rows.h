// SPDX-License-Identifier: Apache-2.0
// Rows of text files, one at a time: TAB-separated as GLUE writes them (no quoting at all), CSV as RFC 4180 says, and
// plain lines for JSONL. Fields refer to the file's bytes; only CSV fields with doubled quotes are copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/ascii.h"
#include "exeunt/base/json.h"

namespace exeunt {

enum class DataFormat { lines, csv, tsv, jsonl };
constexpr std::array<std::string_view, 4> names_of(DataFormat) noexcept {
  return {"text", "csv", "tsv", "jsonl"};
}
// By the ending, also before .gz; nothing for others than .csv, .tsv, .jsonl and .ndjson.
[[nodiscard]] std::optional<DataFormat> format_of(const std::filesystem::path& path);
// The same for texts without labels: files of other endings are plain lines. Throws Error (usage) for those of formats
// that are not (other_format_hint).
[[nodiscard]] DataFormat text_format_of(const std::filesystem::path& path);
// Of a file that by its ending is JSON, a spreadsheet, an archive …: how to get rows from it. Empty for all others.
[[nodiscard]] std::string_view other_format_hint(const std::filesystem::path& path);

// No row of real data comes near these limits; a file that exceeds them is not what it claims to be.
inline constexpr size_t kMaxRowBytes = size_t{1} << 26;
inline constexpr size_t kMaxColumns = 4096;

struct Row {
  std::vector<std::string_view> fields;  // valid until the next row is read
  int64_t line = 0;                      // where it starts, from 1
};

// Ends a line: LF, CR LF, or CR alone (as Python's text files do). A byte order mark at the start is skipped.
class RowReader {
 public:
  // `where` (a file name) prefixes every error. The caller keeps the bytes alive.
  RowReader(std::string_view bytes, std::string where, DataFormat format, char separator = ',');

  // The next row, or false at the end. Throws Error bad_file for a stray or unclosed quote, and for giant rows.
  [[nodiscard]] bool next(Row& row);

  // Continues with more bytes of the same file, which start with a new row. Line numbers continue, too.
  void continue_with(std::string_view bytes) noexcept {
    bytes_ = bytes;
    at_ = 0;
  }

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] size_t unread() const noexcept { return bytes_.size() - at_; }

 private:
  void split_tabs(std::string_view line, Row& row) const;
  void read_csv(Row& row);
  [[nodiscard]] std::string_view quoted_field(const Row& row);
  [[nodiscard]] std::string_view bare_field(const Row& row);
  [[nodiscard]] std::string_view take_line();
  void take_line_end();
  void check_size(const Row& row, size_t start) const;

  std::string_view bytes_;
  std::string where_;
  DataFormat format_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
  std::deque<std::string> unescaped_;  // CSV fields of the current row that had doubled quotes
};

// The same from a file that is read as a stream: one block of it is in memory, or a row if that is longer.
class RowStream {
 public:
  // Fills a buffer with bytes of the file and returns how many; 0 at the end.
  using Source = std::function<size_t(std::span<char>)>;
  // Reads the first block. Throws Error bad_file for UTF-16, and as `source` does.
  RowStream(Source source, std::string where, DataFormat format, char separator = ',');
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  [[nodiscard]] bool next(Row& row);
  [[nodiscard]] bool empty() const noexcept { return reader_.empty() && buffer_.empty(); }  // nothing at all to read
  // Bytes that the source gave and no row had yet.
  [[nodiscard]] size_t unread() const noexcept { return buffer_.size() - given_ + reader_.unread(); }

 private:
  [[nodiscard]] bool refill();
  void read_block();

  Source source_;
  DataFormat format_;
  char separator_;
  std::string buffer_ = {};
  size_t given_ = 0;              // bytes of the buffer passed to the reader
  size_t scanned_ = 0, end_ = 0;  // bytes scanned, and how many of them are whole rows
  bool in_quotes_ = false, at_end_ = false, first_rows_ = true;
  RowReader reader_;
};

// "file:17" and "file:17: column 3 ('label')": positions in errors about rows. `column` is from 0.
[[nodiscard]] std::string place_of(std::string_view where, int64_t line);
[[nodiscard]] std::string place_of(std::string_view where, int64_t line, size_t column, std::string_view name);

// The column of a header with that name. Throws Error bad_file if there is none (suggesting the nearest) or several.
[[nodiscard]] size_t find_column(const Row& header, std::string_view where, const std::string& name);

// Throws Error bad_file if a row of a table has other columns than its header.
void check_columns(const Row& row, const std::string& place, size_t wanted, DataFormat format);

// A line of JSONL, and a field of it; errors name the nearest field. Throw Error bad_file.
[[nodiscard]] Json parse_object(std::string_view line, const std::string& place);
[[nodiscard]] const Json& field_of(const Json& object, const std::string& name, std::string_view place);

// A line with nothing in it, which is a row only in plain text.
[[nodiscard]] bool is_empty_line(const Row& row) noexcept;

// A value as an error message shows it: in quotes, short, control characters and invalid UTF-8 replaced.
[[nodiscard]] std::string shown(std::string_view value);

// A field of a CSV file, quoted if it has a comma, a quote or a line break.
[[nodiscard]] std::string csv_field(std::string_view text);

// Throws Error bad_file at the first field that is not UTF-8. `names` are the columns' names as far as known.
void check_utf8(const Row& row, std::string_view where, const std::vector<std::string>& names);

// Throws Error bad_file if the file is not UTF-8 from its first bytes on (UTF-16 marks).
void refuse_utf16(std::string_view bytes, std::string_view where);

}  // namespace exeunt
