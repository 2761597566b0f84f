// SPDX-License-Identifier: Apache-2.0
// Texts to classify, one at a time, from a file or standard input of any size: plain lines, CSV, TSV or JSONL.
// Only one block of the file is in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/gunzip.h"
#include "exeunt/base/sha256.h"
#include "exeunt/data/rows.h"

namespace exeunt {

struct TextColumns {
  std::optional<DataFormat> form = {};  // default: by the file extension, else lines
  std::string text = "text";            // column or field of the text; lines have none
  std::string pair = {};                // of the second text; empty: one text per row
  bool tab_pair = false;                // lines: two texts separated by a tab
  char separator = ',';                 // of CSV
  std::vector<std::string> keep = {};   // columns or fields to hand on; of plain lines "text" alone
};

struct TextRow {
  std::string text = {};
  std::optional<std::string> pair = {};
  int64_t index = 0;                   // row in the file, from 0, header not counted
  std::string place = {};              // "my.csv:17", for messages
  std::vector<std::string> kept = {};  // the values of the columns to keep; empty where a JSON object has none
};

class TextStream {
 public:
  // "-" is standard input; a file that ends in .gz is unpacked. Throws Error.
  TextStream(const std::string& path, TextColumns columns);
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  // The next row, or false at the end. Throws Error bad_file with line and column; an empty file is an error, too.
  [[nodiscard]] bool next(TextRow& row);

  // Of the columns, or of the fields of the first object; after the first row.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_.empty() ? keys_ : names_; }
  [[nodiscard]] std::string sha256();                  // of all bytes of the file; call once, after the end
  [[nodiscard]] int64_t bytes_read() const noexcept {  // up to the last row; of a packed file, a block further
    return gzip_ ? bytes_read_ : bytes_read_ - static_cast<int64_t>(rows_->unread());
  }
  [[nodiscard]] std::optional<int64_t> size() const noexcept { return size_; }  // nothing: unknown (a pipe)

 private:
  [[nodiscard]] size_t read_file(std::span<char> into);
  [[nodiscard]] bool next_row();
  void take_header();
  void take_fields(TextRow& out);
  void take_object(TextRow& out);
  void take_line(TextRow& out);

  std::string where_;
  TextColumns columns_;
  DataFormat form_ = DataFormat::lines;
  struct File {
    int descriptor = -1;
    ~File();
  };
  File file_ = {};
  std::optional<int64_t> size_ = {};
  int64_t bytes_read_ = 0, index_ = 0;  // bytes of the file, packed or not
  std::unique_ptr<GzipReader> gzip_ = {};
  Sha256 hash_ = {};
  std::optional<RowStream> rows_ = {};
  Row row_ = {};
  std::vector<std::string> names_ = {};  // the header
  std::vector<std::string> keys_ = {};   // of the first object
  size_t text_ = 0, pair_ = 0;
  std::vector<size_t> keep_ = {};  // columns
};

}  // namespace exeunt
