// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/shards.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

struct Part {
  fs::path path = {};
  ShardInfo info = {};
  int64_t lines = 0;  // answers in it
  ShardEnd end = {};

  [[nodiscard]] bool filtered() const { return info.keep_if.has_value(); }
};

std::optional<std::string> first_line(std::ifstream& file) {
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// The next line of an answer; that of a CSV goes on while a quote is open.
bool next_answer(std::ifstream& file, const ShardInfo& info, std::string& line) {
  if (!std::getline(file, line)) return false;
  const auto quotes = [](const std::string& text) { return std::count(text.begin(), text.end(), '"') % 2 != 0; };
  bool open = info.form == "csv" && quotes(line);
  for (std::string more; open && std::getline(file, more);) {
    line += '\n' + more;
    open = !quotes(more);
  }
  return true;
}

// Which row of the source a line answers; -1: none.
int64_t row_of(std::string_view line) {
  constexpr std::string_view kIndex = R"({"index":)";
  if (line.starts_with(kIndex)) line.remove_prefix(kIndex.size());
  return number_of<int64_t>(line.substr(0, line.find_first_of(",\t"))).value_or(-1);
}

[[noreturn]] void throw_foreign(const fs::path& path) {
  throw_bad_file(path.string(), Hint{"parts are what 'exeunt predict --shard i/n --out FILE' writes"},
                 "got no part of a job, want a file of 'exeunt predict --shard'");
}

// What a line of JSON of a part says, the line `number` of the file.
template <class T>
T parse_line(const std::string& line, const fs::path& path, int64_t number) {
  return read_fields<T>(parse_json_line(line, fmt::format("{}:{}", path.string(), number)), path.string());
}

// Reads a part once, to count its lines and to find its end.
Part examine(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw_bad_file(path.string(), "no such file");
  std::ifstream file(path, std::ios::binary);
  const auto first = first_line(file);
  if (!first || !first->starts_with("{\"format\":\"exeunt.shard/")) throw_foreign(path);
  Part part{.path = path, .info = parse_line<ShardInfo>(*first, path, 1)};
  std::string line, last;
  int64_t row = -1;  // of the last answer
  bool in_order = true;
  for (; next_answer(file, part.info, line); std::swap(line, last)) {
    if (part.lines > 0 && part.filtered()) {
      in_order = in_order && row_of(last) > row && part.info.shard.has(row_of(last));
      row = row_of(last);
    }
    ++part.lines;
  }
  if (!last.starts_with("{\"format\":\"exeunt.shard_end/")) {
    throw_bad_file(path.string(), Hint{"run this part again"}, "the part is truncated after {} answers", part.lines);
  }
  --part.lines;
  part.end = parse_line<ShardEnd>(last, path, part.lines + 2);
  const Shard& shard = part.info.shard;
  const int64_t all = (part.end.rows + shard.of - shard.number) / shard.of;
  const int64_t wanted = part.filtered() ? part.end.kept.value_or(-1) : all;
  if (!in_order || row >= part.end.rows)
    throw_bad_file(path.string(), Hint{"run this part again"}, "its rows are not in order");
  if (part.lines != wanted) {
    throw_bad_file(path.string(), Hint{"run this part again"}, "got {} answers, want {} of {} rows", part.lines, wanted,
                   part.end.rows);
  }
  return part;
}

void require_same(const Part& one, const Part& other) {
  const auto ours = fields_json(one.info), theirs = fields_json(other.info);
  const auto require = [&](std::string_view what, const OrderedJson& a, const OrderedJson& b) {
    if (a == b) return;
    throw_bad_file(other.path.string(), Hint{"merge only parts of one job"}, "{} differs from {}: got {}, want {}",
                   what, one.path.string(), b.dump(), a.dump());
  };
  ShardInfo::fields(one.info, [&](const Field& field, const auto&) {
    const std::string name(field.name);  // null where it is left out
    if (!field.help.empty()) require(field.help, ours.value(name, OrderedJson()), theirs.value(name, OrderedJson()));
  });
  require("data", one.end.data, other.end.data);
  require("number of rows", one.end.rows, other.end.rows);
}

// By number; complete and without repetition.
std::map<int, Part> arranged(const std::vector<fs::path>& paths) {
  if (paths.empty()) throw Error(Code::usage, "got no parts, want the files of 'exeunt predict --shard'");
  std::map<int, Part> parts;
  const Part first = examine(paths.front());
  for (const fs::path& path : paths) {
    Part part = examine(path);
    require_same(first, part);
    const int number = part.info.shard.number;
    const auto [found, added] = parts.emplace(number, std::move(part));
    if (!added) {
      throw_bad_file(path.string(), "duplicate part {}/{}, first from {}", number, first.info.shard.of,
                     found->second.path.string());
    }
  }
  std::vector<int> missing;
  for (int i = 1; i <= first.info.shard.of && missing.size() < 20; ++i) {
    if (!parts.contains(i)) missing.push_back(i);
  }
  if (!missing.empty()) {
    throw Error(Code::bad_file,
                fmt::format("got {} of {} parts; missing: {}{}", parts.size(), first.info.shard.of,
                            fmt::join(missing, ", "), missing.size() == 20 ? " …" : ""),
                "run the missing ones with --shard i/n, then merge all of them");
  }
  return parts;
}

}  // namespace

std::string shard_first_line(const ShardInfo& info) {
  return fields_json(info).dump() + "\n";
}

std::string shard_last_line(const ShardEnd& end) {
  return fields_json(end).dump() + "\n";
}

Merged merge_shards(const std::vector<fs::path>& paths, const std::function<void(std::string_view)>& sink) {
  const std::map<int, Part> parts = arranged(paths);
  const Part& first = parts.begin()->second;
  Merged merged{.rows = first.end.rows, .shards = static_cast<int>(parts.size())};
  std::vector<std::unique_ptr<std::ifstream>> files;
  for (const auto& [number, part] : parts) {
    files.push_back(std::make_unique<std::ifstream>(part.path, std::ios::binary));
    (void)first_line(*files.back());
    if (part.info.engine != first.info.engine && merged.notices.empty()) {
      merged.notices.push_back(
          fmt::format("parts come from different engines ({} and {}): answers on the edge of a "
                      "threshold may differ from one machine's",
                      first.info.engine, part.info.engine));
    }
  }
  sink(first.info.head);
  int64_t wanted = 0;
  for (const auto& [number, part] : parts) wanted += part.lines;
  std::vector<std::string> next(files.size());  // of every part, where answers are missing
  for (size_t i = 0; first.filtered() && i < files.size(); ++i) (void)next_answer(*files[i], first.info, next[i]);
  for (int64_t row = 0; row < merged.rows; ++row) {
    const auto part = static_cast<size_t>(row % merged.shards);
    std::string& line = next[part];
    if (first.filtered() ? row_of(line) != row : !next_answer(*files[part], first.info, line)) continue;
    line += '\n';
    sink(line);
    ++merged.written;
    if (first.filtered() && !next_answer(*files[part], first.info, line)) line.clear();
  }
  if (merged.written != wanted) throw Error(Code::bad_file, "a part changed while it was read");
  return merged;
}

}  // namespace exeunt
