// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/rows.h"

#include <algorithm>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/base/utf8.h"

namespace exeunt {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr char kQuote = '"';
constexpr size_t kBlock = size_t{1} << 20;  // bytes that a stream reads at once

bool ends_line(char c) noexcept {
  return c == '\n' || c == '\r';
}

// "data.csv.gz" ends in .csv.
std::string ending_of(const std::filesystem::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).extension().string();
}

struct OtherFormat {
  std::span<const std::string_view> endings = {};
  std::string_view hint = {};
};

#include "other_formats.inc"  // made from other_formats.json

}  // namespace

std::optional<DataFormat> format_of(const std::filesystem::path& path) {
  const std::string ending = ending_of(path);
  if (ending == ".csv") return DataFormat::csv;
  if (ending == ".tsv") return DataFormat::tsv;
  if (ending == ".jsonl" || ending == ".ndjson") return DataFormat::jsonl;
  return std::nullopt;
}

std::string_view other_format_hint(const std::filesystem::path& path) {
  const std::string ending = lower(ending_of(path));
  for (const auto& [endings, hint] : kOtherFormats) {
    if (std::find(endings.begin(), endings.end(), ending) != endings.end()) return hint;
  }
  return {};
}

DataFormat text_format_of(const std::filesystem::path& path) {
  if (const std::string_view hint = other_format_hint(path); !hint.empty()) {
    throw Error(
        Code::usage,
        fmt::format("{}: got extension '{}', want .csv, .tsv, .jsonl or lines of text", path.string(), ending_of(path)),
        std::string(hint));
  }
  return format_of(path).value_or(DataFormat::lines);
}

void check_columns(const Row& row, const std::string& place, size_t wanted, DataFormat format) {
  if (row.fields.size() == wanted) return;
  throw_bad_file(place,
                 Hint{format == DataFormat::csv ? "put fields that contain a separator or a line break in quotes"
                                                : "TSV has no quoting: a text may contain neither TAB nor line break"},
                 "got {} columns, want {} as in the header", row.fields.size(), wanted);
}

Json parse_object(std::string_view line, const std::string& place) {
  Json object = parse_json_line(line, place);
  if (!object.is_object()) throw_bad_file(place, "got {}, want one object per line", glimpse(object));
  return object;
}

const Json& field_of(const Json& object, const std::string& name, std::string_view place) {
  const auto found = object.find(name);
  if (found != object.end()) return *found;
  std::vector<std::string> known;
  for (const auto& [key, value] : object.items()) known.push_back(key);
  throw_bad_file(place, Hint{suggestion(name, known)}, "no field {}", shown(name));
}

bool is_empty_line(const Row& row) noexcept {
  return row.fields.size() == 1 && row.fields[0].find_first_not_of(" \t") == std::string_view::npos;
}

std::string place_of(std::string_view where, int64_t line) {
  return fmt::format("{}:{}", where, line);
}

std::string place_of(std::string_view where, int64_t line, size_t column, std::string_view name) {
  if (name.empty()) return fmt::format("{}:{}: column {}", where, line, column + 1);
  return fmt::format("{}:{}: column {} ({})", where, line, column + 1, shown(name));
}

std::string shown(std::string_view value) {
  constexpr int kLimit = 48;
  std::string out = "'";
  int length = 0;
  while (!value.empty()) {
    if (length++ == kLimit) {
      out += "…";
      break;
    }
    const Decoded next = decode_utf8(value);
    if (next.code_point == U'\t')
      out += "\\t";  // the usual reason why a header is one column
    else
      append_utf8(out, is_control(next.code_point) ? kReplacement : next.code_point);
    value.remove_prefix(next.bytes);
  }
  return out + "'";
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out.append(c == kQuote ? 2 : 1, c);
  return out + kQuote;
}

namespace {

// The likely separator of a header that was parsed as a single column; empty if it looks like one.
std::string other_separator(const Row& header) {
  if (header.fields.size() != 1) return {};
  const size_t at = header.fields[0].find_first_of(";|\t");
  if (at == std::string_view::npos) return {};
  return header.fields[0][at] == '\t' ? "tab" : fmt::format("'{}'", header.fields[0][at]);
}

}  // namespace

size_t find_column(const Row& header, std::string_view where, const std::string& name) {
  const auto count = std::count(header.fields.begin(), header.fields.end(), name);
  if (count == 1) {
    return static_cast<size_t>(std::find(header.fields.begin(), header.fields.end(), name) - header.fields.begin());
  }
  const std::string place = place_of(where, header.line);
  if (count > 1) throw_bad_file(place, "column {} occurs {} times in the header", shown(name), count);
  std::vector<std::string> known;
  for (const auto field : header.fields) known.push_back(shown(field));
  known.resize(std::min<size_t>(known.size(), 12));
  const std::string best = nearest(shown(name), known);
  const std::string mark = other_separator(header);
  throw Error(
      Code::bad_file, fmt::format("{}: no column {} in the header, got {}", place, shown(name), fmt::join(known, ", ")),
      !mark.empty() ? fmt::format("if {0} separates the columns, add --separator {0}", mark)
      : best.empty()
          ? "name the columns with --text-column, --pair-column and --label-column; the first line must be a header"
          : fmt::format("did you mean {}?", best));
}

void check_utf8(const Row& row, std::string_view where, const std::vector<std::string>& names) {
  for (size_t column = 0; column < row.fields.size(); ++column) {
    const auto offset = find_invalid_utf8(row.fields[column]);
    if (!offset) continue;
    const std::string name = column < names.size() ? names[column] : std::string{};
    throw Error(Code::bad_file,
                fmt::format("{}: byte {} is 0x{:02X}, want valid UTF-8", place_of(where, row.line, column, name),
                            *offset + 1, static_cast<uint8_t>(row.fields[column][*offset])),
                "convert the file to UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8");
  }
}

void refuse_utf16(std::string_view bytes, std::string_view where) {
  if (!bytes.starts_with("\xFF\xFE") && !bytes.starts_with("\xFE\xFF")) return;
  throw Error(Code::bad_file, fmt::format("{}:1: got UTF-16 text, want UTF-8", where),
              "save the file as UTF-8, for example with iconv -f UTF-16 -t UTF-8");
}

RowReader::RowReader(std::string_view bytes, std::string where, DataFormat format, char separator)
    : bytes_(bytes), where_(std::move(where)), format_(format), separator_(separator) {
  if (bytes_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool RowReader::next(Row& row) {
  row.fields.clear();
  row.line = line_;
  if (at_ >= bytes_.size()) return false;
  switch (format_) {
    case DataFormat::tsv:
      split_tabs(take_line(), row);
      break;
    case DataFormat::csv:
      read_csv(row);
      break;
    case DataFormat::lines:
    case DataFormat::jsonl:
      row.fields.push_back(take_line());
      break;
  }
  return true;
}

void RowReader::take_line_end() {
  if (at_ >= bytes_.size()) return;
  const bool pair = bytes_[at_] == '\r' && at_ + 1 < bytes_.size() && bytes_[at_ + 1] == '\n';
  at_ += pair ? 2 : 1;
  ++line_;
}

std::string_view RowReader::take_line() {
  const size_t start = at_;
  while (at_ < bytes_.size() && !ends_line(bytes_[at_])) ++at_;
  const std::string_view line = bytes_.substr(start, at_ - start);
  if (line.size() > kMaxRowBytes) {
    throw_bad_file(place_of(where_, line_), "got a row of {} bytes, want at most {}", line.size(), kMaxRowBytes);
  }
  take_line_end();
  return line;
}

void RowReader::split_tabs(std::string_view line, Row& row) const {
  while (true) {
    const size_t tab = line.find('\t');
    row.fields.push_back(line.substr(0, tab));
    check_size(row, at_);
    if (tab == std::string_view::npos) return;
    line.remove_prefix(tab + 1);
  }
}

void RowReader::check_size(const Row& row, size_t start) const {
  if (row.fields.size() > kMaxColumns) {
    throw_bad_file(place_of(where_, row.line), "got more than {} columns in one row", kMaxColumns);
  }
  if (at_ - start > kMaxRowBytes) {
    throw_bad_file(place_of(where_, row.line), "got a row of {} bytes, want at most {}", at_ - start, kMaxRowBytes);
  }
}

void RowReader::read_csv(Row& row) {
  unescaped_.clear();
  const size_t start = at_;
  while (true) {
    const bool quoted = at_ < bytes_.size() && bytes_[at_] == kQuote;
    row.fields.push_back(quoted ? quoted_field(row) : bare_field(row));
    check_size(row, start);
    if (at_ < bytes_.size() && bytes_[at_] == separator_) {
      ++at_;
      continue;
    }
    take_line_end();
    return;
  }
}

std::string_view RowReader::bare_field(const Row& row) {
  const size_t start = at_;
  while (at_ < bytes_.size() && bytes_[at_] != separator_ && !ends_line(bytes_[at_])) {
    if (bytes_[at_] == kQuote) {
      throw Error(Code::bad_file,
                  fmt::format("{}: got a quote inside a field that does not start with one",
                              place_of(where_, line_, row.fields.size(), {})),
                  "put the whole field in quotes and write each quote inside it twice");
    }
    ++at_;
  }
  return bytes_.substr(start, at_ - start);
}

std::string_view RowReader::quoted_field(const Row& row) {
  const int64_t opened = line_;
  const size_t start = ++at_;
  std::string* copy = nullptr;  // set at the first doubled quote
  size_t copied = start;
  while (at_ < bytes_.size() && at_ - start <= kMaxRowBytes) {
    if (bytes_[at_] == kQuote) {
      if (at_ + 1 >= bytes_.size() || bytes_[at_ + 1] != kQuote) break;
      if (copy == nullptr) copy = &unescaped_.emplace_back();
      copy->append(bytes_.substr(copied, at_ + 1 - copied));
      at_ += 2;
      copied = at_;
    } else if (ends_line(bytes_[at_])) {
      take_line_end();
    } else {
      ++at_;
    }
  }
  if (at_ >= bytes_.size() || bytes_[at_] != kQuote) {
    throw Error(Code::bad_file,
                fmt::format("{}: got a quote that is never closed", place_of(where_, opened, row.fields.size(), {})),
                "close the field with a quote, or write a quote inside a field twice");
  }
  const size_t end = at_++;
  if (at_ < bytes_.size() && bytes_[at_] != separator_ && !ends_line(bytes_[at_])) {
    throw Error(Code::bad_file,
                fmt::format("{}: got {} after the closing quote, want '{}' or the end of the line",
                            place_of(where_, line_, row.fields.size(), {}), shown(bytes_.substr(at_, 12)), separator_),
                "write a quote inside a quoted field twice");
  }
  if (copy == nullptr) return bytes_.substr(start, end - start);
  copy->append(bytes_.substr(copied, end - copied));
  return *copy;
}

RowStream::RowStream(Source source, std::string where, DataFormat format, char separator)
    : source_(std::move(source)),
      format_(format),
      separator_(separator),
      reader_({}, std::move(where), format, separator) {
  read_block();
  refuse_utf16(buffer_, reader_.where());
}

bool RowStream::next(Row& row) {
  while (!reader_.next(row)) {
    if (!refill()) return false;
  }
  return true;
}

// Appends one block, and finds where the last whole row in the buffer ends: at a line end outside quotes. A CR that
// comes last may be half of a CR LF, so it waits for the next byte.
void RowStream::read_block() {
  const size_t old = buffer_.size();
  buffer_.resize(old + kBlock);
  const std::span<char> room = std::span(buffer_).subspan(old);
  const size_t got = source_(room);
  buffer_.resize(old + got);
  at_end_ = got == 0;
  for (; scanned_ < buffer_.size(); ++scanned_) {
    const char c = buffer_[scanned_];
    if (c == '"' && format_ == DataFormat::csv) in_quotes_ = !in_quotes_;
    if (in_quotes_) continue;
    if (c == '\n') end_ = scanned_ + 1;
    if (c == '\r') {
      if (scanned_ + 1 == buffer_.size()) return;
      end_ = scanned_ + 1 + (buffer_[scanned_ + 1] == '\n' ? 1 : 0);
    }
  }
}

// Passes the next whole rows to the reader; false at the end of the file.
bool RowStream::refill() {
  buffer_.erase(0, given_);
  scanned_ -= given_;
  end_ -= given_;
  given_ = 0;
  // A row beyond the limits is left to the reader, which rejects it.
  while (!at_end_ && end_ == 0 && buffer_.size() <= kMaxRowBytes) read_block();
  given_ = end_ == 0 ? buffer_.size() : end_;
  scanned_ = std::max(scanned_, given_);
  end_ = given_;
  const std::string_view rows = std::string_view(buffer_).substr(0, given_);
  if (std::exchange(first_rows_, false)) {  // which may start with a byte order mark
    reader_ = RowReader(rows, reader_.where(), format_, separator_);
  } else {
    reader_.continue_with(rows);
  }
  return !rows.empty();
}

}  // namespace exeunt
