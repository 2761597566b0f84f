// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/data/labels.h"
#include "exeunt/data/rows.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// A column as found in one file.
struct Place {
  size_t column = 0;
  bool last = false;  // the last field of each row, as the originals read it, even in rows with more fields
  std::string name;   // for messages
};

// Reads the rows of one file of a task into a Dataset.
class SplitReader {
 public:
  SplitReader(const Task& task, const SplitFile& file, std::string where)
      : task_(task), file_(file), where_(std::move(where)), labels_(task.labels) {}

  Dataset read(std::string_view bytes, const OnBadRow& on_bad_row);

 private:
  [[nodiscard]] Place find_column(const Column& column, const Row& header);
  void find_columns(const Row& first);
  void check_width(const Row& row) const;
  [[nodiscard]] std::string name_of_column(size_t column) const;
  void take(const Row& row, int64_t index);

  const Task& task_;
  const SplitFile& file_;
  std::string where_;
  LabelIndex labels_;
  std::optional<Place> text_, pair_, label_;
  size_t needed_ = 0;  // columns a row must have
  Dataset out_;
};

Place SplitReader::find_column(const Column& column, const Row& header) {
  const size_t width = header.fields.size();
  for (const std::string_view name : column.names) {
    const auto found = std::find(header.fields.begin(), header.fields.end(), name);
    if (!file_.header || found == header.fields.end()) continue;
    const auto place = static_cast<size_t>(found - header.fields.begin());
    return {place, column.number == kLastColumn && place + 1 == width, std::string(name)};
  }
  const size_t place = column.number == kLastColumn ? width - 1 : static_cast<size_t>(column.number);
  const std::string_view name = column.names.empty() ? std::string_view{} : column.names.front();
  if (place >= width) {
    throw Error(Code::bad_file,
                fmt::format("{}: got {} columns, want {} for column {}", place_of(where_, header.line), width,
                            place + 1, name.empty() ? fmt::format("{}", place + 1) : shown(name)),
                fmt::format("is this {} of {}? Columns are separated by TAB", file_.file, task_.name));
  }
  if (!file_.header) return {place, column.number == kLastColumn, std::string(name)};
  out_.notices.push_back(fmt::format("{}: no column {} in the header, column {} ({}) is used", where_, shown(name),
                                     place + 1, shown(header.fields[place])));
  return {place, column.number == kLastColumn, std::string(header.fields[place])};
}

void SplitReader::find_columns(const Row& first) {
  text_ = find_column(file_.text, first);
  if (file_.pair.wanted()) pair_ = find_column(file_.pair, first);
  if (file_.label.wanted()) label_ = find_column(file_.label, first);
  for (const auto* place : {&text_, &pair_, &label_}) {
    if (*place) needed_ = std::max(needed_, (*place)->column + 1);
  }
  if (!file_.header) return;
  out_.columns.assign(first.fields.begin(), first.fields.end());
}

std::string SplitReader::name_of_column(size_t column) const {
  for (const auto* place : {&text_, &pair_, &label_}) {
    if (*place && (*place)->column == column) return (*place)->name;
  }
  return column < out_.columns.size() ? out_.columns[column] : std::string{};
}

void SplitReader::check_width(const Row& row) const {
  if (row.fields.size() >= needed_) return;
  throw Error(Code::bad_file,
              fmt::format("{}: got {} columns, want {}: {} is missing", place_of(where_, row.line), row.fields.size(),
                          std::max(needed_, out_.columns.size()),
                          shown(name_of_column(std::max(row.fields.size(), size_t{1})))),
              "columns are separated by TAB; look for a line break inside the row before");
}

void SplitReader::take(const Row& row, int64_t index) {
  check_utf8(row, where_, out_.columns);
  check_width(row);
  const auto value = [&](const Place& place) { return place.last ? row.fields.back() : row.fields[place.column]; };
  Example example;
  example.text = value(*text_);
  if (pair_) example.pair = std::string(value(*pair_));
  example.index = index;
  example.gold = std::numeric_limits<float>::quiet_NaN();
  if (label_) {
    const std::string place =
        place_of(where_, row.line, label_->last ? row.fields.size() - 1 : label_->column, label_->name);
    example.gold =
        task_.regression() ? gold_value(value(*label_), task_.range, place) : labels_.gold(value(*label_), place);
  }
  out_.examples.push_back(std::move(example));
}

Dataset SplitReader::read(std::string_view bytes, const OnBadRow& on_bad_row) {
  refuse_utf16(bytes, where_);
  out_.task = task_.name;
  out_.split = name_of(file_.split);
  if (task_.regression()) out_.problem = Problem::regression;
  out_.labelled = file_.label.wanted();
  out_.labels = task_.labels;
  out_.range = task_.range;
  RowReader reader(bytes, where_, DataFormat::tsv);
  Row row;
  int64_t index = 0;
  int64_t blanks = 0;  // empty lines just read: ignored at the end of a file, short rows anywhere else
  const auto handle = [&](const Row& data) {
    const int64_t at = index++;
    if (task_.skips_short_rows && data.fields.size() < needed_) {
      ++out_.skipped;
      return;
    }
    try {
      take(data, at);
    } catch (const Error& error) {
      if (!on_bad_row) throw;
      ++out_.skipped;
      on_bad_row(error);
    }
  };
  for (bool first = true; reader.next(row); first = false) {
    if (first) {
      find_columns(row);
      check_utf8(row, where_, out_.columns);
      if (file_.header) continue;
    }
    if (row.fields.size() == 1 && row.fields[0].empty()) {
      ++blanks;
      continue;
    }
    for (; blanks > 0; --blanks) handle({{std::string_view{}}, row.line - blanks});
    handle(row);
  }
  if (index == 0) throw_bad_file(where_, "got {}, want rows", bytes.empty() ? "an empty file" : "no row of data");
  return std::move(out_);
}

}  // namespace

void append_gold(const Dataset& data, const Example& example, std::vector<float>& gold) {
  const size_t begin = gold.size();
  switch (data.problem) {
    case Problem::classification:
    case Problem::regression:
      return gold.push_back(example.gold);
    case Problem::multi_label:
      gold.resize(begin + data.labels.size(), std::isnan(example.gold) ? example.gold : 0.0F);
      if (std::isnan(example.gold)) return;
      for (const int label : example.given) gold[begin + static_cast<size_t>(label)] = 1;
  }
}

Dataset parse_split(const Task& task, Split split, std::string_view bytes, const std::string& where,
                    const OnBadRow& on_bad_row) {
  const SplitFile* file = task.find(split);
  if (file == nullptr) {
    throw Error(Code::usage, fmt::format("task {} has no {} split", task.name, name_of(split)),
                task.model_of.empty() ? "" : fmt::format("train {} instead", task.model_of));
  }
  Dataset out = SplitReader(task, *file, where).read(bytes, on_bad_row);
  out.sha256 = sha256_hex(bytes);
  out.where = where;
  return out;
}

std::optional<fs::path> find_split(const Task& task, Split split, const fs::path& folder) {
  const SplitFile* file = task.find(split);
  if (file == nullptr) return std::nullopt;
  if (path_exists(folder / file->file)) return folder / file->file;
  for (const std::string_view name : task.folders) {
    if (path_exists(folder / name / file->file)) return folder / name / file->file;
  }
  return std::nullopt;
}

Dataset read_split(const Task& task, Split split, const fs::path& folder, const OnBadRow& on_bad_row) {
  const SplitFile* file = task.find(split);
  if (file == nullptr) return parse_split(task, split, {}, {}, on_bad_row);  // throws the error
  const auto path = find_split(task, split, folder);
  if (!path) {
    throw Error(Code::bad_file,
                fmt::format("{}: no {} of task {} here or in {}", folder.string(), file->file, task.name,
                            fmt::join(task.folders, ", ")),
                "scripts/download_glue_data fetches GLUE");
  }
  return parse_split(task, split, MappedFile::open(*path, kMaxDataBytes)->text(), path->string(), on_bad_row);
}

void reorder_labels(Dataset& data, const std::vector<std::string>& labels) {
  if (data.problem == Problem::regression || data.labels == labels) return;
  const LabelIndex index(labels);
  std::vector<float> moved(data.labels.size(), std::numeric_limits<float>::quiet_NaN());  // of labels that occur
  for (Example& example : data.examples) {
    const auto place = [&](auto label) {
      float& now = moved[static_cast<size_t>(label)];
      if (std::isnan(now))
        now = index.gold(data.labels[static_cast<size_t>(label)],
                         fmt::format("{}: row {}", data.where, example.index + 1));
      return now;
    };
    for (int& label : example.given) label = static_cast<int>(place(label));
    std::sort(example.given.begin(), example.given.end());
    if (data.problem == Problem::classification && !std::isnan(example.gold)) example.gold = place(example.gold);
  }
  data.labels = labels;
}

}  // namespace exeunt
