// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/user_data.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "exeunt/base/files.h"
#include "exeunt/base/gunzip.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/gold_reader.h"
#include "exeunt/data/text_stream.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

class UserReader {
 public:
  UserReader(const UserColumns& columns, const OnBadRow& on_bad_row)
      : columns_(columns), on_bad_row_(on_bad_row), gold_(columns), sets_(columns) {}

  // Any number of tables and texts, one after the other. `Rows` is a RowReader or a RowStream.
  template <class Rows>
  void add_table(Rows rows, const std::string& where, DataFormat format);
  void add_text(std::string_view bytes, const std::string& where, const std::string& label);
  Dataset finish(const std::string& where);

 private:
  void find_columns(const Row& header);
  void take_fields(const Row& row);
  void take_object(const Row& row);
  void take_line(const Row& row);
  void take_row(const Row& row);
  void take(Example example, int64_t line, const std::function<float()>& gold);
  void note_bad(const Error& error);
  void refuse_bad() const;
  void say_left_out(const std::string& where);
  [[nodiscard]] std::string text_of(const Json& object, const std::string& name, std::string_view where) const;
  [[nodiscard]] bool has_cluster() const { return !columns_.cluster.empty() && columns_.cluster != kNoCluster; }
  [[nodiscard]] bool multi_label() const {
    return (columns_.problem == Problem::multi_label && !columns_.label.empty()) || !columns_.label_columns.empty();
  }
  void take_set(Example& example, const Row& row);
  void take_set(Example& example, const Json& object, const std::string& place);

  const UserColumns& columns_;
  const OnBadRow& on_bad_row_;
  GoldReader gold_;
  SetReader sets_;                    // for multi_label
  std::vector<size_t> label_places_;  // of columns_.label_columns
  std::string where_;                 // the file being read
  DataFormat format_ = DataFormat::csv;
  std::vector<std::string> names_;  // its header
  size_t text_ = 0, pair_ = 0, label_ = 0, cluster_ = 0;
  int64_t index_ = 0;
  int64_t blank_ = 0;  // rows without a text
  std::string first_blank_;
  int64_t bad_ = 0;  // rows that cannot be used
  std::optional<Error> first_bad_;
  Dataset out_;
};

void UserReader::find_columns(const Row& header) {
  names_.assign(header.fields.begin(), header.fields.end());
  if (out_.columns.empty()) out_.columns = names_;
  text_ = find_column(header, where_, columns_.text);
  if (!columns_.pair.empty()) pair_ = find_column(header, where_, columns_.pair);
  if (has_cluster()) cluster_ = find_column(header, where_, columns_.cluster);
  label_places_.clear();
  for (const std::string& name : columns_.label_columns) label_places_.push_back(find_column(header, where_, name));
  if (!columns_.label.empty() && columns_.label_columns.empty()) label_ = find_column(header, where_, columns_.label);
}

void UserReader::take_set(Example& example, const Row& row) {
  if (columns_.label_columns.empty()) {
    example.given = sets_.read(split_labels(row.fields[label_]), place_of(where_, row.line, label_, columns_.label));
    return;
  }
  std::vector<std::string> given;
  for (size_t i = 0; i < label_places_.size(); ++i) {
    const std::string& name = columns_.label_columns[i];
    if (is_given(row.fields[label_places_[i]], place_of(where_, row.line, label_places_[i], name)))
      given.push_back(name);
  }
  example.given = sets_.read(given, place_of(where_, row.line));
}

void UserReader::take_set(Example& example, const Json& object, const std::string& place) {
  std::vector<std::string> given;
  for (const std::string& name : columns_.label_columns) {
    const Json& field = field_of(object, name, place);
    if (is_given(field.is_string() ? field.get<std::string>() : field.dump(),
                 fmt::format("{}: field {}", place, shown(name))))
      given.push_back(name);
  }
  if (columns_.label_columns.empty()) {
    const auto found = object.find(columns_.label);
    if (found != object.end() && found->is_array()) {
      for (const Json& one : *found) {
        if (!one.is_string() && !one.is_number())
          throw_bad_file(fmt::format("{}: field {}", place, shown(columns_.label)), "got {}, want a list of labels",
                         glimpse(one));
        given.push_back(one.is_string() ? one.get<std::string>() : one.dump());
      }
    } else {
      given = split_labels(text_of(object, columns_.label, place));
    }
  }
  example.given = sets_.read(given, fmt::format("{}: field {}", place, shown(columns_.label)));
}

// A row without a text is left out, whatever its label. The others have one.
void UserReader::take(Example example, int64_t line, const std::function<float()>& gold) {
  if (is_blank(example.text, example.pair)) {
    if (blank_++ == 0) first_blank_ = place_of(where_, line);
    ++out_.skipped;
    return;
  }
  example.gold = columns_.label.empty() ? kNoGold : gold();
  if (columns_.cluster == kNoCluster) example.cluster = "";
  example.index = index_;
  out_.examples.push_back(std::move(example));
}

void UserReader::take_fields(const Row& row) {
  check_utf8(row, where_, names_);
  check_columns(row, place_of(where_, row.line), names_.size(), format_);
  Example example;
  example.text = row.fields[text_];
  if (!columns_.pair.empty()) example.pair = std::string(row.fields[pair_]);
  if (has_cluster()) example.cluster = std::string(row.fields[cluster_]);
  if (multi_label() && !is_blank(example.text, example.pair)) take_set(example, row);
  take(std::move(example), row.line, [&] {
    return multi_label() ? 0.0F : gold_.read(row.fields[label_], place_of(where_, row.line, label_, columns_.label));
  });
}

std::string UserReader::text_of(const Json& object, const std::string& name, std::string_view where) const {
  const Json& field = field_of(object, name, where);
  if (field.is_string()) return field.get<std::string>();
  const bool label = name == columns_.label || name == columns_.cluster;
  if (label && (field.is_number() || field.is_boolean())) return field.dump();
  throw_bad_file(fmt::format("{}: field {}", where, shown(name)), "got {}, want a {}", glimpse(field),
                 label ? "string or a number" : "string");
}

void UserReader::take_object(const Row& row) {
  check_utf8(row, where_, names_);
  const std::string place = place_of(where_, row.line);
  const Json object = parse_object(row.fields[0], place);
  Example example;
  example.text = text_of(object, columns_.text, place);
  if (!columns_.pair.empty()) example.pair = text_of(object, columns_.pair, place);
  if (has_cluster()) example.cluster = text_of(object, columns_.cluster, place);
  if (multi_label() && !is_blank(example.text, example.pair)) take_set(example, object, place);
  take(std::move(example), row.line, [&] {
    if (multi_label()) return 0.0F;
    const std::string label = text_of(object, columns_.label, place);
    return gold_.read(label, fmt::format("{}: field {}", place, shown(columns_.label)));
  });
}

void UserReader::take_line(const Row& row) {
  check_utf8(row, where_, names_);
  Example example;
  example.text = row.fields[0];
  take(std::move(example), row.line, [] { return kNoGold; });
}

void UserReader::take_row(const Row& row) {
  if (format_ == DataFormat::lines) return take_line(row);
  format_ == DataFormat::jsonl ? take_object(row) : take_fields(row);
}

// Without a callback, the first error is kept until the number of bad rows is known.
void UserReader::note_bad(const Error& error) {
  ++out_.skipped;
  if (on_bad_row_) return on_bad_row_(error);
  if (bad_++ == 0) first_bad_ = error;
}

void UserReader::refuse_bad() const {
  if (bad_ == 0 || columns_.skip_bad) return;
  const std::string more = bad_ == 1 ? "" : fmt::format(" (and {} more bad row{})", bad_ - 1, bad_ == 2 ? "" : "s");
  const std::string skip = fmt::format("--skip-bad leaves {} out", bad_ == 1 ? "the row" : "such rows");
  const std::string& hint = first_bad_->hint();
  throw Error(first_bad_->code(), first_bad_->what() + more,
              hint.empty() ? skip : hint + (hint.ends_with('?') ? " " : "; ") + skip);
}

void UserReader::say_left_out(const std::string& where) {
  const auto say = [&](int64_t rows, const std::string& what, const std::string& first) {
    if (rows == 0) return;
    out_.notices.push_back(rows == 1
                               ? fmt::format("{}: skipped a row {}", first, what)
                               : fmt::format("{}: skipped {} rows {}, the first at {}", where, rows, what, first));
  };
  if (out_.examples.empty() && blank_ > 0) {
    throw Error(Code::bad_file, fmt::format("{}: got {} rows without a text, want texts", where, blank_),
                fmt::format("check that {} is the text column", shown(columns_.text)));
  }
  say(blank_, "without a text", first_blank_);
  if (bad_ == 0) return;
  if (out_.examples.empty()) throw Error(first_bad_->code(), first_bad_->what(), first_bad_->hint());
  out_.notices.push_back(fmt::format("{}: --skip-bad: skipped {} bad row{}, the first: {}", where, bad_,
                                     bad_ == 1 ? "" : "s", first_bad_->what()));
}

template <class Rows>
void UserReader::add_table(Rows rows, const std::string& where, DataFormat format) {
  where_ = where;
  format_ = format;
  names_.clear();
  const bool empty = rows.empty();
  Row row;
  const int64_t before = index_;
  for (bool header = format == DataFormat::csv || format == DataFormat::tsv; rows.next(row);) {
    if (is_empty_line(row)) continue;
    if (header) {
      check_utf8(row, where_, names_);
      find_columns(row);
      header = false;
      continue;
    }
    try {
      take_row(row);
    } catch (const Error& error) {
      note_bad(error);
    }
    ++index_;
  }
  if (index_ == before) throw_bad_file(where_, "got {}, want rows", empty ? "an empty file" : "no row of data");
}

void UserReader::add_text(std::string_view bytes, const std::string& where, const std::string& label) {
  where_ = where;
  refuse_utf16(bytes, where);
  try {
    check_utf8(Row{.fields = {bytes}, .line = 1}, where, {});
    Example example;
    example.text = bytes.substr(0, bytes.find_last_not_of("\r\n") + 1);
    if (multi_label()) throw_bad_file(where, "folders of texts have one label each, want a table for several");
    take(std::move(example), 1, [&] { return gold_.read(label, where); });
  } catch (const Error& error) {
    note_bad(error);
  }
  ++index_;
}

Dataset UserReader::finish(const std::string& where) {
  refuse_bad();
  say_left_out(where);
  out_.labelled = !columns_.label.empty();
  if (out_.labelled && !out_.examples.empty()) multi_label() ? sets_.finish(out_, where) : gold_.finish(out_, where);
  out_.where = where;
  return std::move(out_);
}

RowReader rows_in(std::string_view bytes, const std::string& where, DataFormat format, char separator) {
  refuse_utf16(bytes, where);
  return {bytes, where, format, separator};
}

// Rows stay in memory, so that a small file must not become a large one: text seldom packs to a tenth.
uint64_t most_unpacked(size_t packed) {
  constexpr uint64_t kAlways = uint64_t{64} << 20, kTimes = 100;
  return std::min(kMaxDataBytes, kAlways + kTimes * packed);
}

// Rows without labels may be plain lines.
DataFormat known_format(const fs::path& path, const UserColumns& columns) {
  if (const auto format = format_of(path)) return *format;
  if (columns.label.empty() && columns.label_columns.empty() && columns.pair.empty()) return text_format_of(path);
  const std::string ending = path.extension().string();
  const std::string_view hint = other_format_hint(path);
  throw Error(Code::usage, fmt::format("{}: got extension '{}', want .csv, .tsv or .jsonl", path.string(), ending),
              hint.empty() ? "write one of these formats, or give the file the right extension" : std::string(hint));
}

struct DataFile {
  fs::path path;
  std::string label = {};  // of a whole file that is one text; empty: a table
};

// In the order of their names, without hidden ones.
std::set<fs::path> entries_of(const fs::path& folder) {
  std::set<fs::path> out;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (!entry->path().filename().string().starts_with('.')) out.insert(entry->path());
  }
  if (failure) throw_bad_file(folder.string(), "cannot read the folder: {}", failure.message());
  return out;
}

std::vector<DataFile> files_in(const fs::path& folder) {
  std::vector<DataFile> tables, texts;
  std::vector<std::string> folders;
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code ignored;
    if (format_of(entry)) tables.push_back({entry});
    if (!fs::is_directory(entry, ignored)) continue;
    folders.push_back(entry.filename().string());
    for (const fs::path& file : entries_of(entry)) {
      if (file.extension() == ".txt") texts.push_back({file, folders.back()});
    }
  }
  if (!tables.empty()) return tables;
  const auto is_split = [](const std::string& name) { return name == "train" || name == "test" || name == "dev"; };
  if (std::any_of(folders.begin(), folders.end(), is_split)) {
    throw Error(
        Code::usage, fmt::format("{}: got a folder of splits, {}", folder.string(), fmt::join(folders, ", ")),
        fmt::format("name one of them: --data {}, with --eval-data for another", (folder / folders.back()).string()));
  }
  if (!texts.empty()) return texts;
  throw Error(Code::usage,
              fmt::format("{}: got a folder without data, want .csv, .tsv or .jsonl files in it, or for each label a "
                          "folder of .txt files",
                          folder.string()),
              "for a GLUE or ELUE task add --task; its folder is named after it");
}

std::vector<DataFile> data_files(const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return files_in(name);
  if (path_exists(name) || name.find(',') == std::string::npos) return {{name}};
  std::vector<DataFile> out;
  for (const std::string_view part : split(name, ','))
    if (!part.empty()) out.push_back({std::string(part)});
  return out;
}

}  // namespace

OrderedJson columns_json(const UserColumns& columns) {
  OrderedJson out{{"text", columns.text}, {"label", columns.label}};
  if (!columns.pair.empty()) out["pair"] = columns.pair;
  if (!columns.cluster.empty()) out["cluster"] = columns.cluster;
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
  out.cluster = text("cluster", out.cluster);
  const std::string separator = text("separator", ",");
  if (separator.size() == 1) out.separator = separator[0];
  return out;
}

Dataset parse_user_data(std::string_view bytes, const std::string& where, const UserColumns& columns,
                        const OnBadRow& on_bad_row) {
  check(columns.format.has_value(), "bytes in memory have no file ending to go by");
  UserReader reader(columns, on_bad_row);
  reader.add_table(rows_in(bytes, where, *columns.format, columns.separator), where, *columns.format);
  Dataset out = reader.finish(where);
  out.sha256 = sha256_hex(bytes);
  return out;
}

Dataset read_user_data(const std::string& name, const UserColumns& columns, const OnBadRow& on_bad_row) {
  UserReader reader(columns, on_bad_row);
  Sha256 hash;
  for (const DataFile& file : data_files(name)) {
    // First: of a file that is not there, its ending does not matter.
    const auto mapped = MappedFile::open(file.path, kMaxDataBytes);
    const std::string_view bytes = mapped->text();
    const std::string where = file.path.string();
    hash.add(bytes);
    if (!file.label.empty()) {
      reader.add_text(bytes, where, file.label);
      continue;
    }
    const DataFormat format = columns.format ? *columns.format : known_format(file.path, columns);
    if (file.path.extension() == ".gz") {
      const auto unpacked = unpacking(bytes, where, most_unpacked(bytes.size()));
      reader.add_table(RowStream(unpacked, where, format, columns.separator), where, format);
    } else {
      reader.add_table(rows_in(bytes, where, format, columns.separator), where, format);
    }
  }
  Dataset out = reader.finish(name);
  out.sha256 = hash.hex();
  return out;
}

bool lacks_labels(const DataSource& source) {
  const UserColumns& columns = source.columns;
  if (!source.task.empty() || columns.label != UserColumns{}.label || !columns.label_columns.empty()) return false;
  try {
    const DataFile file = data_files(source.path).at(0);
    if (!file.label.empty()) return false;
    const DataFormat format = columns.format ? *columns.format : text_format_of(file.path);
    TextStream rows(file.path.string(), {.form = format, .text = columns.text, .separator = columns.separator});
    TextRow first;
    if (format == DataFormat::lines || !rows.next(first)) return format == DataFormat::lines;
    const std::vector<std::string>& names = rows.names();
    return std::find(names.begin(), names.end(), columns.label) == names.end() && nearest(columns.label, names).empty();
  } catch (const Error&) {
    return false;  // which reading all of it will report, with every other bad row
  }
}

Dataset load_data(const DataSource& source) {
  if (source.path.empty())
    throw Error(Code::usage, "--data is required",
                "name a data folder with --task and --data, or a file of your own with --data");
  Dataset data;
  if (!source.task.empty()) {
    const std::string& cluster = source.columns.cluster;
    if (!cluster.empty() && cluster != kNoCluster)
      throw Error(Code::usage, "--cluster: a column of a file of your own, and tasks are read as they are");
    data =
        read_split(find_task(source.task), source.split.empty() ? Split::dev : split_named(source.split), source.path);
    for (Example& example : data.examples)
      if (!cluster.empty()) example.cluster = "";
  } else {
    if (!source.split.empty()) throw Error(Code::usage, "--split goes with --task");
    data = read_user_data(source.path, source.columns);
  }
  keep_first_rows(data, source.limit, source.path);
  return data;
}

void keep_first_rows(Dataset& data, int64_t limit, const std::string& where) {
  if (limit > 0 && data.examples.size() > static_cast<size_t>(limit)) data.examples.resize(static_cast<size_t>(limit));
  if (data.examples.empty()) throw_bad_file(where, "got no rows, want at least one");
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
  add("--cluster", columns.cluster, "");
  if (columns.separator != usual.separator)
    add("--separator", columns.separator == '\t' ? "tab" : std::string(1, columns.separator), "");
  add("--labels", fmt::format("{}", fmt::join(columns.labels, ",")), "");
  add("--label-columns", fmt::format("{}", fmt::join(columns.label_columns, ",")), "");
  if (columns.problem == Problem::multi_label && columns.label_columns.empty()) out += " --multi-label";
  if (columns.skip_bad) out += " --skip-bad";
  return columns.problem == Problem::regression ? out + " --regression" : out;
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
