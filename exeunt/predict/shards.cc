// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/shards.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "exeunt.shard/1", kEnd = "exeunt.shard_end/1";
constexpr int64_t kMaxRows = int64_t{1} << 50;
constexpr int kMaxShards = 1 << 20;

struct Part {
  fs::path path = {};
  ShardInfo info = {};
  int64_t lines = 0;  // answers in it
  int64_t rows = 0;   // of the whole source
  std::string data = {};
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

ShardInfo parse_info(const std::string& line, const fs::path& path) {
  if (!line.starts_with("{\"format\":\"exeunt.shard/")) throw_foreign(path);
  const Json json = parse_json_line(line, path.string() + ":1");
  JsonObject object(json, path.string());
  if (object.string("format") != kFormat) object.fail("format", object.string("format"), std::string(kFormat));
  ShardInfo info;
  info.shard.of = static_cast<int>(object.integer("of", 1, kMaxShards));
  info.shard.number = static_cast<int>(object.integer("shard", 1, info.shard.of));
  info.form = object.string("form");
  info.head = object.string("head");
  info.weights = object.string("weights");
  info.policy = object.string("policy");
  info.precision = object.string("precision");
  info.engine = object.string("engine");
  info.max_length = static_cast<int>(object.integer("max_length", 1, 1 << 20));
  object.finish();
  return info;
}

// Reads a part once, to count its lines and to find its end.
Part examine(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw_bad_file(path.string(), "no such file");
  std::ifstream file(path, std::ios::binary);
  const auto first = first_line(file);
  if (!first) throw_foreign(path);
  Part part{.path = path, .info = parse_info(*first, path), .lines = 0, .rows = 0, .data = {}};
  std::string line, last;
  for (; std::getline(file, line); std::swap(line, last)) ++part.lines;
  if (!last.starts_with("{\"format\":\"exeunt.shard_end/")) {
    throw_bad_file(path.string(), Hint{"run this part again"}, "the part is truncated after {} answers", part.lines);
  }
  --part.lines;
  const Json json = parse_json_line(last, fmt::format("{}:{}", path.string(), part.lines + 2));
  JsonObject object(json, path.string());
  if (object.string("format") != kEnd) object.fail("format", object.string("format"), std::string(kEnd));
  part.rows = object.integer("rows", 0, kMaxRows);
  part.data = object.string("data");
  object.finish();
  const Shard& shard = part.info.shard;
  const int64_t wanted = (part.rows + shard.of - shard.number) / shard.of;
  if (part.lines != wanted) {
    throw_bad_file(path.string(), Hint{"run this part again"}, "got {} answers, want {} of {} rows", part.lines, wanted,
                   part.rows);
  }
  return part;
}

void require_same(const Part& one, const Part& other) {
  const auto require = [&](std::string_view what, const auto& a, const auto& b) {
    if (a == b) return;
    throw Error(
        Code::bad_file,
        fmt::format("{}: {} differs from {}: got {}, want {}", other.path.string(), what, one.path.string(), b, a),
        "merge only parts of one job");
  };
  require("number of shards", one.info.shard.of, other.info.shard.of);
  require("form", one.info.form, other.info.form);
  require("head", one.info.head, other.info.head);
  require("model", one.info.weights, other.info.weights);
  require("policy", one.info.policy, other.info.policy);
  require("precision", one.info.precision, other.info.precision);
  require("max_length", one.info.max_length, other.info.max_length);
  require("data", one.data, other.data);
  require("number of rows", one.rows, other.rows);
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
  OrderedJson out;
  out["format"] = kFormat;
  out["shard"] = info.shard.number;
  out["of"] = info.shard.of;
  out["form"] = info.form;
  out["head"] = info.head;
  out["weights"] = info.weights;
  out["policy"] = info.policy;
  out["precision"] = info.precision;
  out["engine"] = info.engine;
  out["max_length"] = info.max_length;
  return out.dump() + "\n";
}

std::string shard_last_line(int64_t rows, const std::string& data_sha256) {
  OrderedJson out;
  out["format"] = kEnd;
  out["rows"] = rows;
  out["data"] = data_sha256;
  return out.dump() + "\n";
}

Merged merge_shards(const std::vector<fs::path>& paths, const std::function<void(std::string_view)>& sink) {
  const std::map<int, Part> parts = arranged(paths);
  const Part& first = parts.begin()->second;
  Merged merged{.rows = first.rows, .shards = static_cast<int>(parts.size()), .notices = {}};
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
