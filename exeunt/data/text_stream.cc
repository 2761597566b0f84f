// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/text_stream.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt {

TextStream::TextStream(const std::string& path, TextColumns columns)
    : where_(path == "-" ? "standard input" : path),
      columns_(std::move(columns)),
      form_(columns_.form ? *columns_.form : text_format_of(path)) {
  file_.descriptor = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_.descriptor < 0) {
    throw_bad_file(where_, Hint{"to classify a text itself, pass it with --text"}, "cannot open: {}",
                   std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file_.descriptor, &status) != 0 || S_ISDIR(status.st_mode)) {
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
  const auto read = [this](std::span<char> room) { return gzip_ ? gzip_->read(room) : read_file(room); };
  rows_.emplace(read, where_, form_, columns_.separator);
  if (rows_->empty()) throw_bad_file(where_, "got an empty file, want texts");
}

TextStream::File::~File() {
  if (descriptor >= 0) ::close(descriptor);
}

size_t TextStream::read_file(std::span<char> into) {
  ssize_t got = 0;
  do {
    got = ::read(file_.descriptor, into.data(), into.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw_bad_file(where_, "cannot read: {}", std::strerror(errno));
  hash_.add(std::string_view(into.data(), static_cast<size_t>(got)));
  bytes_read_ += got;
  return static_cast<size_t>(got);
}

bool TextStream::next_row() {
  while (true) {
    if (!rows_->next(row_)) return false;
    // Blank lines are rows only in plain text.
    if (form_ != DataFormat::lines && is_empty_line(row_)) continue;
    check_utf8(row_, where_, names_);
    return true;
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
  if (keys_.empty())
    for (const auto& item : object.items()) keys_.push_back(item.key());
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
