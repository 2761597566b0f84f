// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_results.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/tasks/task.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 5> kWhole{"RTE", "MRPC", "CoLA", "STS-B", "SST-2"};
constexpr std::array<std::string_view, 3> kSubsets{"QNLI", "MNLI", "QQP"};
constexpr std::array<std::string_view, 11> kRecipes{"plain",        "deebert",     "deebert-sd", "pabee",
                                                    "elasticbert",  "romebert-sd", "romebert",   "elbert",
                                                    "elbert-equal", "berxit",      "exeunt"};
constexpr std::array<std::string_view, 3> kRules{"entropy", "patience", "window"};
constexpr std::array<std::string_view, 3> kCutShort{"elue-SST-2", "elue-MRPC", "elue-STS-B"};
constexpr int kLayers = 12;           // of the models the grid trains
constexpr double kHeldOutLoss = 0.5;  // points that a threshold may lose on held-out rows
constexpr size_t kMaxResultBytes = size_t{1} << 24;
constexpr int64_t kMaxCount = int64_t{1} << 40;

// The measures of a task whose mean is its score, in the order the page names them.
std::vector<std::string> measures_of(std::string_view task) {
  if (task == "MRPC" || task == "QQP") return {"accuracy", "f1"};
  if (task == "CoLA") return {"matthews_correlation"};
  if (task == "STS-B") return {"pearson", "spearmanr"};
  return {"accuracy"};
}

std::string_view plain(std::string_view task) {
  return task.starts_with("elue-") ? task.substr(5) : task;
}

// Sums in long double, so that a mean is the nearest double to the true one.
std::optional<double> mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  long double sum = 0;
  for (const double value : values) sum += value;
  return static_cast<double>(sum / static_cast<long double>(values.size()));
}

// In percent.
std::optional<double> score_of(std::string_view task, const StoredRun::Exit& exit) {
  std::vector<double> values;
  for (const std::string& name : measures_of(plain(task))) {
    if (const auto found = exit.scores.find(name); found != exit.scores.end()) values.push_back(found->second);
  }
  const std::optional<double> mean = mean_of(values);
  return mean ? std::optional(100 * *mean) : std::nullopt;
}

std::string shown(const std::vector<double>& values) {
  const std::optional<double> mean = mean_of(values);
  return mean ? fmt::format("{:.1f}", *mean) : "–";
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
  const Json value = read_json(path, kMaxResultBytes);
  const std::string where = path.string();
  JsonObject object(value, where);
  StoredRun run;
  run.task = object.string("task");
  run.recipe = object.string("recipe");
  run.seed = object.integer("seed", 0, kMaxCount);
  run.layers = static_cast<int>(object.integer("layers", 0, kMaxLayers));
  run.steps = object.integer("steps", 0, kMaxCount);
  JsonObject results(object.get("results"), where + ": results");
  run.exits = read_exits(results.get("exits"), where);
  if (const Json* held = results.find("exits_held-out")) run.held_out = read_exits(*held, where);
  return run;
}

StoredCurve read_curve(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  StoredCurve curve{object.string("task"), object.string("recipe"), object.string("split"), {}};
  for (const Json& row : object.get("rows")) {
    JsonObject point(row, where + ": rows");
    curve.points.push_back({point.string("policy"), point.number("score"), point.number("layers")});
  }
  return curve;
}

// One policy's mean score and layers over the seeds, in the order of the first curve.
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

std::string rule_of(const std::string& policy) {
  return policy.substr(0, policy.find(':'));
}

std::string in_marks(std::string_view name) {
  return fmt::format("`{}`", name);
}

std::vector<const StoredRun*> runs_of(const StoredResults& results, std::string_view task, std::string_view recipe) {
  std::vector<const StoredRun*> out;
  for (const StoredRun& run : results.runs) {
    if (run.task == task && run.recipe == recipe && run.layers == 0) out.push_back(&run);
  }
  return out;
}

std::vector<std::string> layer_header(std::vector<std::string> first) {
  for (int layer = 1; layer <= kLayers; ++layer) first.push_back(fmt::format("{}", layer));
  return first;
}

ResultTable exit_table(const StoredResults& results, std::string_view task, bool subset) {
  ResultTable table{.header = layer_header({"recipe", "seeds"})};
  const std::string names =
      task == "CoLA" ? "Matthews' correlation" : fmt::format("{}", fmt::join(measures_of(task), " and "));
  table.title = fmt::format("{}: {}{}", task, names, subset ? ", a subset of the training rows" : "");
  for (const std::string_view recipe : kRecipes) {
    const auto found = runs_of(results, task, recipe);
    if (found.empty()) continue;
    std::map<int, std::vector<double>> at;
    std::set<int> layers;
    for (const StoredRun* run : found) {
      for (const StoredRun::Exit& exit : run->exits) {
        layers.insert(exit.layer);
        if (const auto score = score_of(task, exit)) at[exit.layer].push_back(*score);
      }
    }
    std::vector<std::string> row{in_marks(recipe), fmt::format("{}", found.size())};
    for (int layer = 1; layer <= kLayers; ++layer) row.push_back(layers.contains(layer) ? shown(at[layer]) : "");
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The entropy that leaves earliest on held-out rows with little lost there against `plain`, then read on dev.
std::optional<ResultTable> chosen_table(const StoredResults& results) {
  constexpr std::string_view kTask = "SST-2";
  std::vector<double> held_scores, dev_scores;
  for (const StoredRun* run : runs_of(results, kTask, "plain")) {
    if (run->held_out.empty() || run->exits.empty()) continue;
    if (const auto score = score_of(kTask, run->held_out.back())) held_scores.push_back(*score);
    if (const auto score = score_of(kTask, run->exits.back())) dev_scores.push_back(*score);
  }
  const std::optional<double> held = mean_of(held_scores), dev = mean_of(dev_scores);
  if (!held || !dev) return std::nullopt;
  ResultTable table{.title = "SST-2: a threshold chosen on held-out rows",
                    .header = {"recipe", "seeds", "policy", "held-out", "dev (against plain)", "layers", "fewer"}};
  table.remark = fmt::format("`plain` at full depth: {:.1f} on the held-out rows, {:.1f} on dev.", *held, *dev);
  for (const std::string_view recipe : kRecipes) {
    if (recipe == "plain") continue;
    const auto on_held = mean_curve(results, kTask, recipe, "held-out"),
               on_dev = mean_curve(results, kTask, recipe, "eval");
    std::vector<std::string> row{in_marks(recipe), fmt::format("{}", runs_of(results, kTask, recipe).size())};
    const StoredCurve::Point* best = nullptr;
    for (const StoredCurve::Point& point : on_held) {
      if (rule_of(point.policy) != "entropy" || point.score < *held - kHeldOutLoss) continue;
      if (best == nullptr || std::pair(point.layers, point.policy) < std::pair(best->layers, best->policy))
        best = &point;
    }
    const auto read = std::find_if(on_dev.begin(), on_dev.end(),
                                   [&](const auto& point) { return best != nullptr && point.policy == best->policy; });
    if (read == on_dev.end()) {
      row.emplace_back("none");
      row.resize(table.header.size());
    } else {
      row.insert(row.end(), {in_marks(best->policy), fmt::format("{:.1f}", best->score),
                             fmt::format("{:.1f} ({:+.1f})", read->score, read->score - *dev),
                             fmt::format("{:.2f}", read->layers), fmt::format("{:.2f}×", kLayers / read->layers)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

ResultTable curve_table(const StoredResults& results, std::string_view task, std::string_view rule) {
  ResultTable table{.title = fmt::format("{}, {}", task, rule), .header = {"recipe", "score at mean layers"}};
  for (const std::string_view recipe : kRecipes) {
    if (recipe == "plain") continue;
    std::vector<std::pair<double, std::string>> points;
    for (const StoredCurve::Point& point : mean_curve(results, task, recipe, "eval")) {
      if (rule_of(point.policy) == rule)
        points.emplace_back(point.layers, fmt::format("{:.1f} at {:.1f}", point.score, point.layers));
    }
    if (points.empty()) continue;
    std::sort(points.begin(), points.end());
    std::vector<std::string> texts;
    for (auto& [layers, text] : points) texts.push_back(std::move(text));
    table.rows.push_back({in_marks(recipe), fmt::format("{}", fmt::join(texts, ", "))});
  }
  return table;
}

ResultTable cut_short_table(const StoredResults& results) {
  ResultTable table{.title = "Models cut short", .header = layer_header({"task"})};
  for (const std::string_view task : kCutShort) {
    std::map<int, double> found;
    for (const StoredRun& run : results.runs) {
      if (run.task != task || run.exits.empty()) continue;
      if (const auto score = score_of(task, run.exits.back())) found[run.layers] = *score;
    }
    if (found.empty()) continue;
    std::vector<std::string> row{std::string(plain(task))};
    for (int layer = 1; layer <= kLayers; ++layer)
      row.push_back(found.contains(layer) ? fmt::format("{:.1f}", found[layer]) : "");
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

StoredResults read_results(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "grid", error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (files.empty()) {
    throw Error(Code::bad_file, fmt::format("{}: got no grid/*.json in it, want results of trainings", folder.string()),
                "benchmarks/results/train has ours; benchmarks/grid makes them");
  }
  std::sort(files.begin(), files.end());
  StoredResults results;
  for (const fs::path& path : files) results.runs.push_back(read_run(path));
  const fs::path curves = folder / "curves.json";
  if (fs::exists(curves, error)) {
    const Json list = read_json(curves, kMaxResultBytes);
    if (!list.is_array()) throw_bad_file(curves.string(), "got {}, want a list of curves", glimpse(list));
    for (const Json& curve : list) results.curves.push_back(read_curve(curve, curves.string()));
  }
  return results;
}

std::vector<ResultTable> result_tables(const StoredResults& results) {
  std::vector<ResultTable> tables;
  const auto add = [&](ResultTable table) {
    if (!table.rows.empty()) tables.push_back(std::move(table));
  };
  if (auto chosen = chosen_table(results)) add(std::move(*chosen));
  for (const std::string_view task : kWhole) add(exit_table(results, task, false));
  for (const std::string_view task : kSubsets) add(exit_table(results, task, true));
  std::vector<std::string_view> tasks(kWhole.begin(), kWhole.end());
  tasks.insert(tasks.end(), kSubsets.begin(), kSubsets.end());
  for (const std::string_view task : tasks) {
    for (const std::string_view rule : kRules) add(curve_table(results, task, rule));
  }
  add(cut_short_table(results));
  return tables;
}

std::string markdown(const ResultTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    return fmt::format("| {} |\n", fmt::join(cells, " | "));
  };
  std::string out = fmt::format("### {}\n", table.title);
  if (!table.remark.empty()) out += fmt::format("{}\n\n", table.remark);
  out += line(table.header) + line(std::vector<std::string>(table.header.size(), "---"));
  for (const std::vector<std::string>& row : table.rows) out += line(row);
  return out;
}

Reached reached_by(const StoredResults& results, const Paper& paper, const std::string& task) {
  const auto runs = runs_of(results, task, paper.recipe);
  if (runs.empty()) {
    std::set<std::string> there;
    for (const StoredRun& run : results.runs) {
      if (run.recipe == paper.recipe && run.layers == 0) there.insert(run.task);
    }
    throw Error(Code::usage, fmt::format("no stored run of recipe {} on {}", paper.recipe, task),
                there.empty() ? "" : fmt::format("there are: {}", fmt::join(there, ", ")));
  }
  // Which backbone it was is not in the files; it is none of the papers'.
  Reached reached{.task = task, .split = "dev", .backbone = "stored", .rows = find_task(task).find(Split::dev)->rows};
  std::map<int, std::map<std::string, std::vector<double>>> at;
  for (const StoredRun* run : runs) {
    for (const StoredRun::Exit& exit : run->exits) {
      for (const auto& [name, value] : exit.scores) at[exit.layer][name].push_back(value);
    }
  }
  for (const auto& [layer, scores] : at) {
    Reached::Exit exit{.layer = layer, .metrics = {}};
    for (const auto& [name, values] : scores) {
      if (const auto metric = metric_named(name)) exit.metrics.push_back({*metric, *mean_of(values)});
    }
    reached.exits.push_back(std::move(exit));
  }
  const Metric primary = find_task(task).primary;
  for (const StoredCurve::Point& point : mean_curve(results, task, paper.recipe, "eval")) {
    const int depth = reached.exits.empty() ? kLayers : reached.exits.back().layer;
    reached.points.push_back({point.policy, depth / point.layers, {{primary, point.score / 100}}});
  }
  return reached;
}

}  // namespace exeunt
