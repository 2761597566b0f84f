// SPDX-License-Identifier: Apache-2.0
#include "exeunt/tasks/user_data.h"

#include <algorithm>
#include <limits>
#include <map>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/suggest.h"
#include "exeunt/tasks/labels.h"
#include "exeunt/tasks/rows.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr float kNoGold = std::numeric_limits<float>::quiet_NaN();

// Collects labels. If neither labels nor the problem type are given, all rows must be read before gold is known: read()
// then records each row's label, and finish() fills in gold.
class GoldReader {
 public:
  explicit GoldReader(const UserColumns& columns) : regression_(columns.regression) {
    if (!columns.labels.empty()) {
      if (regression_.value_or(false)) throw Error(Code::usage, "a regression has no list of labels");
      given_.emplace(columns.labels);
      names_ = columns.labels;
      regression_ = false;
    }
  }

  [[nodiscard]] float read(std::string_view label, std::string_view where) {
    if (regression_.value_or(false)) return gold_value(label, std::nullopt, where);
    if (given_) return given_->gold(label, where);
    if (label.empty()) throw_bad_file(where, "got an empty label, want a name");
    const auto [found, added] = seen_.emplace(label, names_.size());
    if (added) names_.emplace_back(label);
    rows_.push_back(found->second);
    return kNoGold;
  }

  void finish(Dataset& data, std::string_view where) {
    data.regression = regression_ ? *regression_ : looks_like_numbers();
    if (data.regression) {
      finish_regression(data);
    } else if (given_) {
      data.labels = names_;
    } else {
      finish_labels(data, where);
    }
  }

 private:
  // Integers are class indices; a number with a fraction is a measurement.
  [[nodiscard]] bool looks_like_numbers() const {
    const auto number = [](const std::string& name) { return parse_number(name).has_value(); };
    const auto whole = [](const std::string& name) { return parse_whole_number(name).has_value(); };
    return std::all_of(names_.begin(), names_.end(), number) && !std::all_of(names_.begin(), names_.end(), whole);
  }

  void finish_regression(Dataset& data) const {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (size_t i = 0; i < data.examples.size(); ++i) {
      Example& example = data.examples[i];
      if (!regression_) example.gold = static_cast<float>(*parse_number(names_[rows_[i]]));
      low = std::min<double>(low, example.gold);
      high = std::max<double>(high, example.gold);
    }
    if (low <= high) data.range = {low, high};
  }

  void finish_labels(Dataset& data, std::string_view where) {
    if (names_.size() > kMaxLabels) {
      throw Error(Code::bad_file,
                  fmt::format("{}: got {} different labels, want at most {}", where, names_.size(), kMaxLabels),
                  "check that the label column is the right one; numbers may be meant as a regression");
    }
    if (names_.size() == 1) {
      throw Error(Code::bad_file,
                  fmt::format("{}: got one label only, {}, want at least two", where, shown(names_.front())),
                  "name all labels with --labels if this file has just one of them");
    }
    data.labels = names_;
    sort_labels(data.labels);
    std::vector<float> place(names_.size());
    for (size_t i = 0; i < data.labels.size(); ++i) place[seen_.find(data.labels[i])->second] = static_cast<float>(i);
    for (size_t i = 0; i < data.examples.size(); ++i) data.examples[i].gold = place[rows_[i]];
  }

  std::optional<bool> regression_;
  std::optional<LabelIndex> given_;
  std::map<std::string, size_t, std::less<>> seen_;
  std::vector<std::string> names_;
  std::vector<size_t> rows_;  // per row, its label's index in names_
};

class UserReader {
 public:
  UserReader(std::string where, const UserColumns& columns)
      : where_(std::move(where)), columns_(columns), gold_(columns) {}

  Dataset read(std::string_view bytes, const OnBadRow& on_bad_row);

 private:
  void find_columns(const Row& header);
  void take_fields(const Row& row);
  void take_object(const Row& row);
  [[nodiscard]] bool leave_out(const Example& example, int64_t line);
  void say_left_out();
  [[nodiscard]] std::string text_of(const Json& object, const std::string& name, std::string_view where) const;

  std::string where_;
  const UserColumns& columns_;
  GoldReader gold_;
  size_t text_ = 0, pair_ = 0, label_ = 0;
  int64_t index_ = 0;
  int64_t blank_ = 0, first_blank_ = 0;  // rows without a text, and the line of the first
  Dataset out_;
};

void UserReader::find_columns(const Row& header) {
  out_.columns.assign(header.fields.begin(), header.fields.end());
  text_ = find_column(header, where_, columns_.text);
  if (!columns_.pair.empty()) pair_ = find_column(header, where_, columns_.pair);
  if (!columns_.label.empty()) label_ = find_column(header, where_, columns_.label);
}

void UserReader::take_fields(const Row& row) {
  check_utf8(row, where_, out_.columns);
  if (row.fields.size() != out_.columns.size()) {
    throw Error(Code::bad_file,
                fmt::format("{}: got {} columns, want {} as in the header", place_of(where_, row.line),
                            row.fields.size(), out_.columns.size()),
                columns_.format == UserFormat::csv
                    ? "put fields that contain a separator or a line break in quotes"
                    : "TSV has no quoting: a text may contain neither TAB nor line break");
  }
  Example example;
  example.text = row.fields[text_];
  if (!columns_.pair.empty()) example.pair = std::string(row.fields[pair_]);
  if (leave_out(example, row.line)) return;
  example.gold = kNoGold;
  if (!columns_.label.empty()) {
    example.gold = gold_.read(row.fields[label_], place_of(where_, row.line, label_, columns_.label));
  }
  example.index = index_;
  out_.examples.push_back(std::move(example));
}

std::string UserReader::text_of(const Json& object, const std::string& name, std::string_view where) const {
  const auto found = object.find(name);
  if (found == object.end()) {
    std::vector<std::string> known;
    for (const auto& [key, value] : object.items()) known.push_back(key);
    throw Error(Code::bad_file, fmt::format("{}: no field {}", where, shown(name)), suggestion(name, known));
  }
  if (found->is_string()) return found->get<std::string>();
  const bool label = name == columns_.label;
  if (label && (found->is_number() || found->is_boolean())) return found->dump();
  throw_bad_file(fmt::format("{}: field {}", where, shown(name)), "got {}, want a {}", glimpse(*found),
                 label ? "string or a number" : "string");
}

void UserReader::take_object(const Row& row) {
  check_utf8(row, where_, out_.columns);
  const std::string place = place_of(where_, row.line);
  const Json object = parse_json_line(row.fields[0], place);
  if (!object.is_object()) throw_bad_file(place, "got {}, want one object per line", glimpse(object));
  Example example;
  example.text = text_of(object, columns_.text, place);
  if (!columns_.pair.empty()) example.pair = text_of(object, columns_.pair, place);
  if (leave_out(example, row.line)) return;
  example.gold = kNoGold;
  if (!columns_.label.empty()) {
    const std::string label = text_of(object, columns_.label, place);
    example.gold = gold_.read(label, fmt::format("{}: field {}", place, shown(columns_.label)));
  }
  example.index = index_;
  out_.examples.push_back(std::move(example));
}

bool UserReader::leave_out(const Example& example, int64_t line) {
  if (!is_blank(example.text, example.pair)) return false;
  if (blank_++ == 0) first_blank_ = line;
  ++out_.skipped;
  return true;
}

void UserReader::say_left_out() {
  if (blank_ == 0) return;
  if (out_.examples.empty()) {
    throw Error(Code::bad_file, fmt::format("{}: got {} rows without a text, want texts", where_, blank_),
                fmt::format("check that {} is the text column", shown(columns_.text)));
  }
  out_.notices.push_back(blank_ == 1 ? fmt::format("{}: skipped a row without a text", place_of(where_, first_blank_))
                                     : fmt::format("{}: skipped {} rows without a text, the first in line {}", where_,
                                                   blank_, first_blank_));
}

Dataset UserReader::read(std::string_view bytes, const OnBadRow& on_bad_row) {
  refuse_utf16(bytes, where_);
  const bool objects = columns_.format == UserFormat::jsonl;
  const RowFormat format = objects                              ? RowFormat::lines
                           : columns_.format == UserFormat::csv ? RowFormat::csv
                                                                : RowFormat::tsv;
  RowReader reader(bytes, where_, format, columns_.separator);
  Row row;
  for (bool header = !objects; reader.next(row);) {
    if (row.fields.size() == 1 && row.fields[0].find_first_not_of(" \t") == std::string_view::npos) continue;
    if (header) {
      check_utf8(row, where_, out_.columns);
      find_columns(row);
      header = false;
      continue;
    }
    try {
      objects ? take_object(row) : take_fields(row);
    } catch (const Error& error) {
      if (!on_bad_row) throw;
      ++out_.skipped;
      on_bad_row(error);
    }
    ++index_;
  }
  if (index_ == 0) throw_bad_file(where_, "got {}, want rows", bytes.empty() ? "an empty file" : "no row of data");
  say_left_out();
  out_.labelled = !columns_.label.empty();
  if (out_.labelled && !out_.examples.empty()) gold_.finish(out_, where_);
  return std::move(out_);
}

UserFormat format_of(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".csv") return UserFormat::csv;
  if (ending == ".tsv") return UserFormat::tsv;
  if (ending == ".jsonl" || ending == ".ndjson") return UserFormat::jsonl;
  throw Error(Code::usage, fmt::format("{}: got extension '{}', want .csv, .tsv or .jsonl", path.string(), ending),
              "write one of these formats, or give the file the right extension");
}

}  // namespace

OrderedJson columns_json(const UserColumns& columns) {
  OrderedJson out{{"text", columns.text}, {"label", columns.label}};
  if (!columns.pair.empty()) out["pair"] = columns.pair;
  if (columns.separator != UserColumns{}.separator) out["separator"] = std::string(1, columns.separator);
  return out;
}

UserColumns columns_from(const Json& stored) {
  UserColumns out;
  const auto text = [&](const char* name, const std::string& usual) {
    const bool there = stored.is_object() && stored.contains(name) && stored.at(name).is_string();
    return there ? stored.at(name).get<std::string>() : usual;
  };
  out.text = text("text", out.text);
  out.label = text("label", out.label);
  out.pair = text("pair", out.pair);
  const std::string separator = text("separator", ",");
  if (separator.size() == 1) out.separator = separator[0];
  return out;
}

Dataset parse_user_data(std::string_view bytes, const std::string& where, const UserColumns& columns,
                        const OnBadRow& on_bad_row) {
  check(columns.format.has_value(), "bytes in memory have no file ending to go by");
  Dataset out = UserReader(where, columns).read(bytes, on_bad_row);
  out.sha256 = sha256_hex(bytes);
  out.where = where;
  return out;
}

Dataset read_user_data(const fs::path& path, const UserColumns& columns, const OnBadRow& on_bad_row) {
  UserColumns known = columns;
  if (!known.format) known.format = format_of(path);
  const auto mapped = MappedFile::open(path);
  if (mapped->bytes().size() > kMaxDataBytes) {
    throw_bad_file(path.string(), "got {} bytes, want at most {}", mapped->bytes().size(), kMaxDataBytes);
  }
  return parse_user_data(mapped->text(), path.string(), known, on_bad_row);
}

Dataset load_data(const DataSource& source) {
  if (source.path.empty())
    throw Error(Code::usage, "--data is required",
                "name a data folder with --task and --data, or a file of your own with --data");
  Dataset data;
  if (!source.task.empty()) {
    data =
        read_split(find_task(source.task), source.split.empty() ? Split::dev : split_named(source.split), source.path);
  } else {
    if (!source.split.empty()) throw Error(Code::usage, "--split goes with --task");
    std::error_code ignored;
    if (fs::is_directory(source.path, ignored)) {
      throw Error(Code::usage, fmt::format("{}: got a folder without --task", source.path),
                  "add --task, or name a file");
    }
    data = read_user_data(source.path, source.columns);
  }
  if (source.limit > 0 && data.examples.size() > static_cast<size_t>(source.limit))
    data.examples.resize(static_cast<size_t>(source.limit));
  if (data.examples.empty()) throw_bad_file(source.path, "got no rows, want at least one");
  return data;
}

std::string flags_for(const UserColumns& columns) {
  const UserColumns usual;
  std::string out;
  const auto add = [&](const char* flag, const std::string& value, const std::string& absent) {
    if (value != absent) out += fmt::format(" {} {}", flag, shell_word(value));
  };
  add("--text-column", columns.text, usual.text);
  add("--pair-column", columns.pair, usual.pair);
  add("--label-column", columns.label, usual.label);
  if (columns.separator != usual.separator)
    add("--separator", columns.separator == '\t' ? "tab" : std::string(1, columns.separator), "");
  add("--labels", fmt::format("{}", fmt::join(columns.labels, ",")), "");
  return columns.regression.value_or(false) ? out + " --regression" : out;
}

std::string flags_for(const DataSource& source) {
  std::string out;
  if (!source.task.empty()) out += " --task " + shell_word(source.task);
  if (!source.path.empty()) out += " --data " + shell_word(source.path);
  if (!source.split.empty()) out += " --split " + shell_word(source.split);
  out += flags_for(source.columns);
  return source.limit > 0 ? out + fmt::format(" --limit {}", source.limit) : out;
}

}  // namespace exeunt
