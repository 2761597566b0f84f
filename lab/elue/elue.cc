// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/elue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/task.h"
#include "exeunt/model/cost.h"
#include "lab/built_in.h"

namespace exeunt {

namespace {

constexpr std::string_view kFormat = "exeunt.elue_baseline/1";
constexpr size_t kGrid = 101;

double line_through(const CostPoint& a, const CostPoint& b, double mflops) {
  return a.performance + (b.performance - a.performance) * (mflops - a.mflops) / (b.mflops - a.mflops);
}

// Half up, as 0.005 is meant: a hair below it in binary still goes up.
double two_decimals(double value) {
  return std::floor(value * 100 + 0.5 + 1e-9) / 100;
}

// The best score at this cost; at no cost the score is 0, so omitting cheap points does not help.
double best_affordable(std::span<const CostPoint> points, double mflops) {
  double best = 0;
  for (const CostPoint& point : points)
    if (point.mflops <= mflops * (1 + 1e-12)) best = std::max(best, point.performance);
  return best;
}

}  // namespace

const std::vector<std::string>& elue_tasks() {
  static const std::vector<std::string> names{"SST-2", "IMDb", "SNLI", "SciTail", "MRPC", "STS-B"};
  return names;
}

double baseline_at(const Baseline& baseline, double mflops, Extrapolate beyond) {
  check(!baseline.empty(), "a baseline has points");
  const size_t count = baseline.size();
  if (count == 1) return baseline.front().performance;
  const bool linear = beyond == Extrapolate::linear;
  if (mflops <= baseline.front().mflops)
    return linear ? line_through(baseline[0], baseline[1], mflops) : baseline.front().performance;
  if (mflops >= baseline.back().mflops)
    return linear ? line_through(baseline[count - 2], baseline[count - 1], mflops) : baseline.back().performance;
  const auto right = std::upper_bound(baseline.begin(), baseline.end(), mflops,
                                      [](double cost, const CostPoint& point) { return cost < point.mflops; });
  return line_through(*(right - 1), *right, mflops);
}

ElueScore elue_score(std::span<const CostPoint> points, const Baseline& baseline, Extrapolate beyond) {
  if (points.empty()) throw Error(Code::usage, "ELUE score: got no points, want at least one");
  ElueScore out;
  double gaps = 0;
  for (const CostPoint& point : points) {
    if (!std::isfinite(point.mflops) || !std::isfinite(point.performance) || point.mflops <= 0)
      throw Error(Code::usage, fmt::format("ELUE score: got {} MFLOPs and a performance of {}, want finite numbers",
                                           point.mflops, point.performance));
    gaps += point.performance - baseline_at(baseline, point.mflops, beyond);
    if (point.mflops < baseline.front().mflops || point.mflops > baseline.back().mflops) ++out.outside;
  }
  out.score = two_decimals(gaps / static_cast<double>(points.size()));
  const double low = baseline.front().mflops, width = baseline.back().mflops - low;
  double area = 0;
  for (size_t i = 0; i < kGrid; ++i) {
    const double cost = low + width * static_cast<double>(i) / (kGrid - 1);
    area += best_affordable(points, cost) - baseline_at(baseline, cost);
  }
  out.area = two_decimals(area / kGrid);
  return out;
}

std::optional<double> elue_overall(const std::map<std::string, double>& score_by_task) {
  double sum = 0;
  for (const std::string& task : elue_tasks()) {
    const auto found = score_by_task.find(task);
    if (found == score_by_task.end()) return std::nullopt;
    sum += found->second;
  }
  return two_decimals(sum / static_cast<double>(elue_tasks().size()));
}

namespace {

BaselineShape parse_shape(const Json& json, const std::string& where) {
  JsonObject fields(json, where);
  BaselineShape shape;
  shape.layers = static_cast<int>(fields.integer("layers", 1, kMaxLayers));
  shape.hidden = static_cast<int>(fields.integer("hidden", 1, kMaxHidden));
  shape.heads = static_cast<int>(fields.integer("heads", 1, kMaxHidden));
  shape.inner = static_cast<int>(fields.integer("inner", 1, kMaxInner));
  fields.finish();
  return shape;
}

// What decides how much a layer costs and how much it can hold; ALBERT's shared layers hold less for the same cost.
bool fits(const BaselineShape& shape, const ModelSpec& spec) noexcept {
  return shape.layers == spec.layers && shape.hidden == spec.hidden && shape.heads == spec.heads &&
         shape.inner == spec.inner && spec.groups == 0;
}

}  // namespace

BaselineTable parse_baseline_table(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  const std::string format = object.string("format");
  if (format != kFormat) throw_bad_file(where, "got the format '{}', want '{}'", format.substr(0, 64), kFormat);
  BaselineTable table;
  table.source = object.string_or("source", "");
  if (const Json* shape = object.find("shape")) table.shape = parse_shape(*shape, where + ": shape");
  const Json& tasks = object.get("tasks");
  if (!tasks.is_object()) object.fail("tasks", glimpse(tasks), "an object by task");
  for (const auto& [task, points] : tasks.items()) {
    const std::string place = fmt::format("{}: tasks.{}", where, task);
    if (std::find(elue_tasks().begin(), elue_tasks().end(), task) == elue_tasks().end())
      throw_bad_file(place, Hint{suggestion(task, elue_tasks())}, "no task of ELUE");
    if (!points.is_array() || points.size() < 2 || points.size() > 1000)
      throw_bad_file(place, "got {}, want a list of 2 to 1000 points", glimpse(points));
    Baseline baseline;
    for (const Json& value : points) {
      JsonObject point(value, fmt::format("{}[{}]", place, baseline.size()));
      baseline.push_back({point.number("mflops"), point.number("performance")});
      point.finish();
      if (baseline.back().mflops <= (baseline.size() > 1 ? baseline[baseline.size() - 2].mflops : 0))
        point.fail("mflops", fmt::format("{}", baseline.back().mflops), "points of rising cost above 0");
    }
    table.tasks.emplace(task, std::move(baseline));
  }
  if (const Json* remarks = object.find("remarks")) {
    JsonObject fields(*remarks, where + ": remarks");
    for (const auto& [task, unused] : table.tasks)
      if (fields.has(task)) table.remarks[task] = fields.string(task);
    fields.finish();
  }
  object.finish();
  return table;
}

BaselineTable read_baseline_table(const std::filesystem::path& path) {
  return parse_baseline_table(read_json(path, size_t{1} << 24), path.string());
}

const BaselineTable* shipped_baseline(const ModelSpec& spec) {
  constexpr const char* kName = "gte-small-static.json";
  static const BaselineTable table = parse_baseline_table(parse_json(elue_file(kName), kName), kName);
  return table.shape && fits(*table.shape, spec) ? &table : nullptr;
}

namespace fs = std::filesystem;
namespace {

constexpr const char* kScoresFormat = "exeunt.elue_scores/2";

// What the models of all tasks have in common: "elasticbert on bert 12x384, 12 exits".
std::string model_name(const Checkpoint& model) {
  const ModelSpec& spec = model.spec();
  const Json recipe = json_in(model.folder(), "recipe.json", {"name"});
  return fmt::format("{}{} {}x{}, {} exit{}", recipe.is_string() ? recipe.get<std::string>() + " on " : "",
                     name_of(spec.family), spec.layers, spec.hidden, model.exits().sites.size(),
                     model.exits().sites.size() == 1 ? "" : "s");
}

// Which part of ELUE's split the rows are. Data of GLUE under ELUE's name are told by their number, where that differs.
std::string part_of_split(const ExitTrace& trace) {
  const auto rows_of = [&](std::string_view name) -> int64_t {
    const Task* task = find_task_or_null(name);
    for (const SplitFile& file : task == nullptr ? std::vector<SplitFile>{} : task->splits)
      if (name_of(file.split) == trace.info.split) return file.rows;
    return 0;
  };
  const auto rows = static_cast<int64_t>(trace.rows);
  const int64_t elue = rows_of(trace.info.task);
  if (rows == elue) return {};
  if (rows == rows_of(plain_task(trace))) {
    throw Error(Code::usage,
                fmt::format("--elue: got {} rows, which is GLUE's {} of {}, want ELUE's, of {} rows", rows,
                            trace.info.split, plain_task(trace), elue),
                "name the folder of ELUE's data with --data");
  }
  return fmt::format("{} of {} rows of {}", rows, elue, trace.info.split);
}

}  // namespace

ElueOutcome elue_outcome(const Swept& swept, const std::string& baseline, Extrapolate beyond) {
  const ExitTrace& trace = swept.measured->trace;
  ElueOutcome out{.task = plain_task(trace)};
  std::vector<CostPoint> points;
  for (const SweepRow& row : swept.rows) {
    if (!row.score.mflops || row.score.metrics.empty()) {
      throw Error(Code::usage, "--elue needs MFLOPs and gold labels",
                  row.score.mflops ? "" : "name the model, with its data or with --trace");
    }
    points.push_back({*row.score.mflops, 100 * primary_of(row.score.metrics, primary_metric(trace))});
  }
  if (!trace.info.task.starts_with("elue/")) {
    throw Error(Code::usage,
                fmt::format("--elue: got rows of {}, want one of ELUE's tasks",
                            trace.info.task.empty() ? "no known task" : "the task " + trace.info.task),
                "ELUE's splits differ from GLUE's: name ELUE's data with --task elue/NAME");
  }
  out.rows = part_of_split(trace);
  const Checkpoint& model = *swept.measured->model;
  out.model = model_name(model);
  out.result.parameters = count_parameters(model).total();
  for (const CostPoint& point : points) out.result.performance = std::max(out.result.performance, point.performance);
  BaselineTable named;
  if (!baseline.empty()) named = read_baseline_table(baseline);
  const BaselineTable* table = baseline.empty() ? shipped_baseline(model.spec()) : &named;
  if (table == nullptr) return out;
  out.source = table->source;
  out.baseline = table->source;
  if (!baseline.empty())  // two files may call themselves the same
    out.baseline =
        fmt::format("{}, {}", table->source.empty() ? baseline : table->source, sha256_file(baseline).substr(0, 12));
  const auto found = table->tasks.find(out.task);
  if (found != table->tasks.end()) {
    out.score = elue_score(points, found->second, beyond);
    out.result.score = out.score->score;
    if (const auto remark = table->remarks.find(out.task); remark != table->remarks.end())
      out.source += fmt::format(" ({})", remark->second);
  } else if (!baseline.empty()) {
    throw_bad_file(baseline, "no baseline for task '{}'", out.task);
  }
  return out;
}

std::optional<double> ElueScores::overall() const {
  std::map<std::string, double> scores;
  for (const auto& [task, result] : tasks) scores[task] = result.score;
  return elue_overall(scores);
}

OrderedJson elue_result_json(const ElueResult& result) {
  return {{"score", result.score}, {"performance", result.performance}, {"parameters", result.parameters}};
}

ElueScores read_elue_scores(const fs::path& path) {
  const Json stored = read_json(path);
  JsonObject object(stored, path.string());
  (void)object.choice("format", {kScoresFormat});
  ElueScores out{object.string("model"), object.string("baseline"), object.choice("extrapolate", {"clamp", "linear"})};
  const Json& tasks = object.get("tasks");
  if (!tasks.is_object()) object.fail("tasks", glimpse(tasks), "an object by task");
  for (const auto& [name, value] : tasks.items()) {
    JsonObject one(value, fmt::format("{}: tasks.{}", path.string(), name));
    out.tasks[name] = {one.number("score"), one.number("performance"), one.integer("parameters", 1, INT64_MAX)};
    one.finish();
  }
  if (object.has("overall")) (void)object.number("overall");
  object.finish();
  return out;
}

std::optional<double> keep_elue_score(const fs::path& path, const ElueOutcome& outcome, Extrapolate beyond) {
  ElueScores scores{outcome.model, outcome.baseline, beyond == Extrapolate::linear ? "linear" : "clamp"};
  if (path_exists(path)) {
    ElueScores stored = read_elue_scores(path);
    const auto text = [](const ElueScores& of) {
      return fmt::format("{} against {} ({})", of.model, of.baseline, of.extrapolate);
    };
    if (text(stored) != text(scores)) {
      throw Error(Code::usage, fmt::format("{}: holds scores of {}, got {}", path.string(), text(stored), text(scores)),
                  "scores are averaged over tasks of one kind: keep these in another file");
    }
    scores = std::move(stored);
  }
  scores.tasks[outcome.task] = outcome.result;
  OrderedJson out{{"format", kScoresFormat},
                  {"model", scores.model},
                  {"baseline", scores.baseline},
                  {"extrapolate", scores.extrapolate}};
  for (const auto& [task, result] : scores.tasks) out["tasks"][task] = elue_result_json(result);
  const std::optional<double> overall = scores.overall();
  if (overall) out["overall"] = *overall;
  write_atomically(path, json_text(out));
  return overall;
}

}  // namespace exeunt
