// SPDX-License-Identifier: Apache-2.0
// Of training itself: its speed beside PyTorch's, one exit watched while it learns, and which attention ended in NaN.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/table_kinds.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 40;
constexpr size_t kWatchedExit = 6;
constexpr size_t kFirstWatched = 4, kEveryWatched = 2;  // of the steps in the file, those that are shown

bool boolean(JsonObject& object, std::string_view name) {
  if (const Json& value = object.get(name); !value.is_boolean()) object.fail(name, glimpse(value), "true or false");
  return object.get(name).get<bool>();
}

double texts_per_second(JsonObject& row, std::string_view whose) {
  JsonObject object(row.get(whose), fmt::format("{}: {}", row.where(), whose));
  const double value = object.number("samples_per_second");
  if (value <= 0) object.fail("samples_per_second", fmt::format("{}", value), "more than 0");
  return value;
}

// A number, or "real": the lengths of SST-2.
std::string tokens_of(JsonObject& row) {
  const Json& tokens = row.get("tokens");
  if (!tokens.is_string()) return fmt::format("{}", row.integer("tokens", 1, kMaxNumber));
  if (tokens != "real") row.fail("tokens", glimpse(tokens), "a whole number or 'real'");
  return "real";
}

struct Watched {
  int64_t seed = 0, rows = 0;
  std::map<int64_t, double> score = {};  // of kWatchedExit, in percent, by step
  std::vector<int64_t> steps = {};       // in the order of the file
};

Watched read_watched(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  Watched run{.seed = object.integer("seed", 0, kMaxNumber), .rows = object.integer("rows", 1, kMaxNumber)};
  const Json& curve = object.get("curve");
  const auto is_point = [](const Json& point) {
    return point.is_array() && point.size() == 2 && point[0].is_number_unsigned() && point[1].is_array() &&
           point[1].size() >= kWatchedExit && point[1][kWatchedExit - 1].is_number();
  };
  if (!curve.is_array() || curve.empty()) object.fail("curve", glimpse(curve), "a list of steps");
  for (size_t i = 0; i < curve.size(); ++i) {
    if (!is_point(curve[i])) {
      object.fail("curve", fmt::format("{} as number {}", glimpse(curve[i]), i + 1),
                  fmt::format("[step, scores of at least {} exits]", kWatchedExit));
    }
    run.steps.push_back(curve[i][0].get<int64_t>());
    run.score[run.steps.back()] = 100 * curve[i][1][kWatchedExit - 1].get<double>();
  }
  return run;
}

std::vector<Watched> all_watched(const StoredResults& results) {
  const fs::path path = results.folder / "pabee-watched.json";
  std::vector<Watched> runs;
  if (!path_exists(path)) return runs;
  for (const Json& value : read_result_list(path, "runs")) runs.push_back(read_watched(value, path.string()));
  for (const Watched& run : runs) {
    if (run.steps != runs.front().steps || run.rows != runs.front().rows) {
      throw_bad_file(path.string(), "seed {}: got other steps or rows than seed {}, want the same", run.seed,
                     runs.front().seed);
    }
  }
  return runs;
}

}  // namespace

ResultTables speed_tables(const StoredResults& results) {
  std::vector<fs::path> files = result_files(results.folder);
  std::erase_if(files, [](const fs::path& path) { return !path.filename().string().ends_with("-speed.json"); });
  if (files.empty()) return {};
  const std::string where = files.back().string();  // their names open with the date
  const Json value = read_result(files.back());
  JsonObject object(value, where);
  const Json& rows = object.get("rows");
  if (!rows.is_array() || rows.empty()) object.fail("rows", glimpse(rows), "a list of measurements");
  ResultTable table{.header = {"batch × tokens", "ours", "PyTorch", "ratio"}};
  std::string version;
  for (const Json& entry : rows) {
    JsonObject row(entry, where + ": rows");
    const double ours = texts_per_second(row, "ours"), theirs = texts_per_second(row, "torch");
    if (version.empty()) version = JsonObject(row.get("torch"), where + ": torch").string("version");
    table.rows.push_back({fmt::format("{} × {}", row.integer("batch", 1, kMaxNumber), tokens_of(row)),
                          {fmt::format("{:.0f}", ours), {ours}},
                          {fmt::format("{:.0f}", theirs), {theirs}},
                          {fmt::format("{:.2f}×", ours / theirs), {ours / theirs}}});
  }
  table.remark = fmt::format(
      "BERT-base's shape on one {}, bf16, texts a second; the peer is a plain PyTorch {} loop "
      "(`benchmarks/peers/torch_training.py`). `real`: SST-2's lengths.",
      object.string("device"), version);
  return {table};
}

ResultTables watched_tables(const StoredResults& results) {
  const std::vector<Watched> runs = all_watched(results);
  if (runs.empty()) return {};
  std::vector<int64_t> steps;
  for (size_t i = kFirstWatched; i < runs.front().steps.size(); i += kEveryWatched)
    steps.push_back(runs.front().steps[i]);
  ResultTable table{.header = {"seed"}};
  for (const int64_t step : steps) table.header.push_back(fmt::format("step {}", step));
  for (const Watched& run : runs) {
    std::vector<Cell> row{fmt::format("{}", run.seed)};
    for (const int64_t step : steps) row.push_back(one_digit(run.score.at(step)));
    table.rows.push_back(std::move(row));
  }
  return {table};
}

int64_t watched_rows(const StoredResults& results) {
  const std::vector<Watched> runs = all_watched(results);
  return runs.empty() ? 0 : runs.front().rows;
}

ResultTables attention_tables(const StoredResults& results) {
  const fs::path path = results.folder / "attention.json";
  if (!path_exists(path)) return {};
  struct Outcomes {
    size_t times = 0, failed = 0;
    std::vector<std::string> errors;
  };
  std::map<std::array<std::string, 3>, Outcomes> groups;
  for (const Json& value : read_result_list(path, "runs")) {
    JsonObject run(value, path.string());
    const std::string attention =
        run.choice("attention", {"cudnn", "efficient"}) == "cudnn" ? "cuDNN's" : "memory-efficient";
    const std::string launched = boolean(run, "graphs") ? "one graph a step" : "operation by operation";
    const std::string name = fmt::format("{}, seed {}", run.string("recipe"), run.integer("seed", 0, kMaxNumber));
    Outcomes& outcomes = groups[{attention, launched, name}];
    ++outcomes.times;
    if (!boolean(run, "ended")) ++outcomes.failed;
    if (run.has("error")) outcomes.errors.push_back(run.string("error"));
  }
  ResultTable table{.header = {"attention", "launched as", "run", "times", "ended in NaN", "where"}};
  for (const auto& [key, outcomes] : groups) {
    table.rows.push_back({key[0], key[1], key[2], count_cell(outcomes.times), count_cell(outcomes.failed),
                          fmt::format("{}", fmt::join(outcomes.errors, ", "))});
  }
  return table.rows.empty() ? ResultTables{} : ResultTables{table};
}

}  // namespace exeunt
