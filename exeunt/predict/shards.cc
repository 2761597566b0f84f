// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/shards.h"

#include <fstream>
#include <map>
#include <memory>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

// The last line of a part.
struct ShardEnd {
  std::string format = "exeunt.shard_end/1";
  int64_t rows = 0;  // of the whole source
  std::string data = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    static constexpr std::array<std::string_view, 1> kFormats = {"exeunt.shard_end/1"};
    visit(Field{.name = "format", .choices = kFormats, .required = true}, self.format);
    visit(Field{.name = "rows", .low = 0, .high = 0x1p50, .required = true}, self.rows);
    visit(Field{.name = "data", .required = true}, self.data);
  }
};

struct Part {
  fs::path path = {};
  ShardInfo info = {};
  int64_t lines = 0;  // answers in it
  ShardEnd end = {};
};

std::optional<std::string> first_line(std::ifstream& file) {
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
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
  for (; std::getline(file, line); std::swap(line, last)) ++part.lines;
  if (!last.starts_with("{\"format\":\"exeunt.shard_end/")) {
    throw_bad_file(path.string(), Hint{"run this part again"}, "the part is truncated after {} answers", part.lines);
  }
  --part.lines;
  part.end = parse_line<ShardEnd>(last, path, part.lines + 2);
  const Shard& shard = part.info.shard;
  const int64_t wanted = (part.end.rows + shard.of - shard.number) / shard.of;
  if (part.lines != wanted) {
    throw_bad_file(path.string(), Hint{"run this part again"}, "got {} answers, want {} of {} rows", part.lines, wanted,
                   part.end.rows);
  }
  return part;
}

void require_same(const Part& one, const Part& other) {
  const auto require = [&](std::string_view what, const OrderedJson& a, const OrderedJson& b) {
    if (a == b) return;
    throw_bad_file(other.path.string(), Hint{"merge only parts of one job"}, "{} differs from {}: got {}, want {}",
                   what, one.path.string(), b.dump(), a.dump());
  };
  const OrderedJson theirs = fields_json(other.info);
  ShardInfo::fields(one.info, [&](const Field& field, const auto& value) {
    if (!field.help.empty()) require(field.help, field_json(value), theirs.at(std::string(field.name)));
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

std::string shard_last_line(int64_t rows, const std::string& data_sha256) {
  return fields_json(ShardEnd{.rows = rows, .data = data_sha256}).dump() + "\n";
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
  std::string line;
  for (int64_t row = 0; row < merged.rows; ++row) {
    std::ifstream& file = *files[static_cast<size_t>(row % merged.shards)];
    if (!std::getline(file, line)) throw Error(Code::bad_file, "a part changed while it was read");
    line += '\n';
    sink(line);
  }
  return merged;
}

}  // namespace exeunt
