// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/text_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

}  // namespace

TextStream::TextStream(const std::string& path, TextColumns columns)
    : where_(path == "-" ? "standard input" : path),
      columns_(std::move(columns)),
      form_(columns_.form ? *columns_.form : format_of(path).value_or(DataFormat::lines)),
      reader_({}, where_, form_, columns_.separator) {
  descriptor_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw_bad_file(where_, Hint{"to classify a text itself, pass it with --text"}, "cannot open: {}",
                   std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || S_ISDIR(status.st_mode)) {
    ::close(descriptor_);
    throw Error(Code::bad_file, fmt::format("{}: got a folder, want a file of texts", where_),
                "for the files of a task, name it with --task and its folder with --data");
  }
  if (S_ISREG(status.st_mode)) size_ = status.st_size;
  if (path.ends_with(".gz")) {
    gzip_ = std::make_unique<GzipReader>([this](std::span<char> into) { return read_file(into); }, where_);
  }
  if (form_ == DataFormat::lines) {
    for (const std::string& name : columns_.keep) {
      if (name == columns_.text) continue;
      throw Error(Code::usage, fmt::format("--keep: got '{}', and plain lines have no columns", name),
                  "want 'text', or --format csv, tsv or jsonl");
    }
  }
  read_block();
  refuse_utf16(buffer_, where_);
  if (buffer_.empty()) {
    ::close(descriptor_);
    descriptor_ = -1;
    throw_bad_file(where_, "got an empty file, want texts");
  }
}

TextStream::~TextStream() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t TextStream::read_file(std::span<char> into) {
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, into.data(), into.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw_bad_file(where_, "cannot read: {}", std::strerror(errno));
  hash_.add(std::string_view(into.data(), static_cast<size_t>(got)));
  bytes_read_ += got;
  return static_cast<size_t>(got);
}

// Appends one block, and finds where the last whole row in the buffer ends: at a line end outside quotes. A CR that
// comes last may be half of a CR LF, so it waits for the next byte.
void TextStream::read_block() {
  const size_t old = buffer_.size();
  buffer_.resize(old + kBlock);
  const std::span<char> room = std::span(buffer_).subspan(old);
  const size_t got = gzip_ ? gzip_->read(room) : read_file(room);
  buffer_.resize(old + got);
  at_end_ = got == 0;
  for (; scanned_ < buffer_.size(); ++scanned_) {
    const char c = buffer_[scanned_];
    if (c == '"' && form_ == DataFormat::csv) in_quotes_ = !in_quotes_;
    if (in_quotes_) continue;
    if (c == '\n') end_ = scanned_ + 1;
    if (c == '\r') {
      if (scanned_ + 1 == buffer_.size()) return;
      end_ = scanned_ + 1 + (buffer_[scanned_ + 1] == '\n' ? 1 : 0);
    }
  }
}

// Passes the next whole rows to the reader; false at the end of the file.
bool TextStream::refill() {
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
    reader_ = RowReader(rows, where_, form_, columns_.separator);
  } else {
    reader_.continue_with(rows);
  }
  return !rows.empty();
}

bool TextStream::next_row() {
  while (true) {
    if (reader_.next(row_)) {
      // Blank lines are rows only in plain text.
      if (form_ != DataFormat::lines && is_empty_line(row_)) continue;
      check_utf8(row_, where_, names_);
      return true;
    }
    if (!refill()) return false;
  }
}

void TextStream::take_header() {
  if (!next_row()) throw_bad_file(where_, "got no header, want a line that names the columns");
  text_ = find_column(row_, where_, columns_.text);
  if (!columns_.pair.empty()) pair_ = find_column(row_, where_, columns_.pair);
  for (const std::string& name : columns_.keep) keep_.push_back(find_column(row_, where_, name));
  names_.assign(row_.fields.begin(), row_.fields.end());
}

void TextStream::take_fields(TextRow& out) {
  check_columns(row_, out.place, names_.size(), form_);
  out.text = row_.fields[text_];
  if (!columns_.pair.empty()) out.pair = std::string(row_.fields[pair_]);
  for (const size_t column : keep_) out.kept.emplace_back(row_.fields[column]);
}

void TextStream::take_object(TextRow& out) {
  const Json object = parse_object(row_.fields[0], out.place);
  const auto text_of = [&](const std::string& name) {
    const Json& field = field_of(object, name, out.place);
    if (field.is_string()) return field.get<std::string>();
    throw_bad_file(fmt::format("{}: field {}", out.place, shown(name)), "got {}, want a string", glimpse(field));
  };
  out.text = text_of(columns_.text);
  if (!columns_.pair.empty()) out.pair = text_of(columns_.pair);
  for (const std::string& name : columns_.keep) {
    const auto found = object.find(name);
    const bool absent = found == object.end() || found->is_null();
    out.kept.push_back(absent ? "" : found->is_string() ? found->get<std::string>() : found->dump());
  }
}

void TextStream::take_line(TextRow& out) {
  std::string_view text = row_.fields[0];
  if (columns_.tab_pair) {
    const size_t tab = text.find('\t');
    if (tab == std::string_view::npos) {
      throw Error(Code::bad_file, fmt::format("{}: got no tab, want two texts separated by a tab", out.place),
                  "omit --pair for single texts");
    }
    out.pair = std::string(text.substr(tab + 1));
    text = text.substr(0, tab);
  }
  out.text = text;
  out.kept.assign(columns_.keep.size(), std::string(row_.fields[0]));
}

bool TextStream::next(TextRow& row) {
  const bool columns = form_ == DataFormat::csv || form_ == DataFormat::tsv;
  if (columns && names_.empty()) take_header();
  if (!next_row()) {
    if (index_ == 0) throw_bad_file(where_, "got no row of data, want texts");
    return false;
  }
  row.pair.reset();
  row.kept.clear();
  row.index = index_++;
  row.place = place_of(where_, row_.line);
  if (columns) {
    take_fields(row);
  } else if (form_ == DataFormat::jsonl) {
    take_object(row);
  } else {
    take_line(row);
  }
  return true;
}

std::string TextStream::sha256() {
  return hash_.hex();
}

}  // namespace exeunt
