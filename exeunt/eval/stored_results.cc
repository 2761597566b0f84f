// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_results.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxResultBytes = size_t{1} << 24;
constexpr int64_t kMaxCount = int64_t{1} << 40;

// Speeds are depths over this.
double layers_in(JsonObject& point) {
  const double layers = point.number("layers");
  if (layers <= 0) point.fail("layers", fmt::format("{}", layers), "a number above 0");
  return layers;
}

StoredCurve read_curve(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  StoredCurve curve{object.string("task"), object.string("recipe"), object.string("split"), {}};
  const Json& rows = object.get("rows");
  if (!rows.is_array()) object.fail("rows", glimpse(rows), "a list");
  for (const Json& row : rows) {
    JsonObject point(row, where + ": rows");
    curve.points.push_back({point.string("policy"), point.number("score"), layers_in(point)});
  }
  return curve;
}

StoredReplay read_replay(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  StoredReplay replay{object.string("task"), object.string("recipe"), {}};
  const Json& rows = object.get("rows");
  if (!rows.is_array()) object.fail("rows", glimpse(rows), "a list");
  for (const Json& row : rows) {
    JsonObject point(row, where + ": rows");
    StoredReplay::Point read{point.string("policy"), layers_in(point), {}};
    const Json& metrics = point.get("metrics");
    if (!metrics.is_object()) point.fail("metrics", glimpse(metrics), "an object");
    for (const auto& [name, score] : metrics.items()) {
      if (score.is_number()) read.scores[name] = score.get<double>();
    }
    replay.points.push_back(std::move(read));
  }
  return replay;
}

// What the settings say beside the results; a run that was kept without them still has scores.
void read_settings(const Json& value, const std::string& where, StoredRun& run) {
  JsonObject settings(value, where);
  if (const Json* stages = settings.find("stages")) {
    if (!stages->is_array() || stages->empty()) settings.fail("stages", glimpse(*stages), "a list of stages");
    JsonObject stage(stages->front(), where + ": stages");
    run.objective = JsonObject(stage.get("objective"), where + ": objective").string("kind");
  }
  if (const Json* provenance = settings.find("provenance"))
    run.torch = JsonObject(*provenance, where + ": provenance").string_or("torch", "");
}

}  // namespace

Json read_result(const fs::path& path) {
  return read_json(path, kMaxResultBytes);
}

Json read_result_list(const fs::path& path, std::string_view of) {
  Json list = read_result(path);
  if (!list.is_array()) throw_bad_file(path.string(), "got {}, want a list of {}", glimpse(list), of);
  return list;
}

std::vector<fs::path> result_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<StoredRun::Exit> read_exits(const Json& list, const std::string& where) {
  std::vector<StoredRun::Exit> out;
  if (!list.is_array()) throw_bad_file(where, "field 'exits': got {}, want a list", glimpse(list));
  for (const Json& entry : list) {
    JsonObject object(entry, where + ": exits");
    StoredRun::Exit exit{.layer = static_cast<int>(object.integer("layer", 1, kMaxLayers)), .scores = {}};
    for (const auto& [name, value] : entry.items()) {
      if (name != "layer" && value.is_number()) exit.scores[name] = value.get<double>();
    }
    out.push_back(std::move(exit));
  }
  return out;
}

StoredRun read_run(const fs::path& path) {
  const Json value = read_result(path);
  const std::string where = path.string();
  JsonObject object(value, where);
  StoredRun run;
  run.task = object.string("task");
  run.recipe = object.string("recipe");
  run.seed = object.integer("seed", 0, kMaxCount);
  run.layers = static_cast<int>(object.integer("layers", 0, kMaxLayers));
  run.steps = object.integer("steps", 0, kMaxCount);
  run.backbone = object.string_or("backbone", "");
  run.attention = object.string_or("attention", "");
  JsonObject results(object.get("results"), where + ": results");
  run.exits = read_exits(results.get("exits"), where);
  if (const Json* held = results.find("exits_held-out")) run.held_out = read_exits(*held, where);
  run.train_rows = results.integer_or("train_samples", 0, kMaxCount, 0);
  if (const Json* settings = object.find("settings")) read_settings(*settings, where + ": settings", run);
  return run;
}

StoredResults read_results(const fs::path& folder) {
  const std::vector<fs::path> files = result_files(folder / "grid");
  if (files.empty()) {
    throw Error(Code::bad_file, fmt::format("{}: got no grid/*.json in it, want results of trainings", folder.string()),
                "benchmarks/results/train has ours; benchmarks/grid makes them");
  }
  StoredResults results{.folder = folder, .runs = {}, .curves = {}, .replays = {}};
  for (const fs::path& path : files) results.runs.push_back(read_run(path));
  const fs::path curves = folder / "curves.json";
  if (path_exists(curves)) {
    for (const Json& curve : read_result_list(curves, "curves"))
      results.curves.push_back(read_curve(curve, curves.string()));
  }
  const fs::path papers = folder / "papers.json";
  if (path_exists(papers)) {
    for (const Json& replay : read_result_list(papers, "replays"))
      results.replays.push_back(read_replay(replay, papers.string()));
  }
  return results;
}

std::vector<std::string> measures_of(std::string_view task) {
  if (task.starts_with("elue-")) task.remove_prefix(5);
  if (task == "MRPC" || task == "QQP") return {"accuracy", "f1"};
  if (task == "CoLA") return {"matthews_correlation"};
  if (task == "STS-B") return {"pearson", "spearmanr"};
  return {"accuracy"};
}

// Sums in long double, so that a mean is the nearest double to the true one.
std::optional<double> mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  long double sum = 0;
  for (const double value : values) sum += value;
  return static_cast<double>(sum / static_cast<long double>(values.size()));
}

std::optional<double> score_of(std::string_view task, const StoredRun::Exit& exit) {
  std::vector<double> values;
  for (const std::string& name : measures_of(task)) {
    if (const auto found = exit.scores.find(name); found != exit.scores.end()) values.push_back(found->second);
  }
  const std::optional<double> mean = mean_of(values);
  return mean ? std::optional(100 * *mean) : std::nullopt;
}

std::vector<const StoredRun*> runs_of(const StoredResults& results, std::string_view task, std::string_view recipe) {
  std::vector<const StoredRun*> out;
  for (const StoredRun& run : results.runs) {
    if (run.task == task && run.recipe == recipe && run.layers == 0) out.push_back(&run);
  }
  return out;
}

std::vector<StoredCurve::Point> mean_curve(const StoredResults& results, std::string_view task, std::string_view recipe,
                                           std::string_view split) {
  struct Values {
    std::vector<double> scores, layers;
  };
  std::vector<std::string> order;
  std::map<std::string, Values> found;
  for (const StoredCurve& curve : results.curves) {
    if (curve.task != task || curve.recipe != recipe || curve.split != split) continue;
    for (const StoredCurve::Point& point : curve.points) {
      if (!found.contains(point.policy)) order.push_back(point.policy);
      found[point.policy].scores.push_back(point.score);
      found[point.policy].layers.push_back(point.layers);
    }
  }
  std::vector<StoredCurve::Point> out;
  for (const std::string& policy : order)
    out.push_back({policy, *mean_of(found[policy].scores), *mean_of(found[policy].layers)});
  return out;
}

}  // namespace exeunt
