// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/reproduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/task.h"
#include "exeunt/recipes/recipe.h"
#include "lab/built_in.h"

namespace exeunt {

namespace {

// DeeBERT's thresholds, and steps between them for points of which the paper gives the speed alone.
constexpr std::string_view kEntropies =
    "entropy:0|0.001|0.005|0.01|0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.35|0.4|0.45|0.5|0.55|0.6|0.65|0.7|0.8|0.9|1";

constexpr double kSameSpeed = 1.1;  // speeds whose ratio is at most this are compared
constexpr std::string_view kWindows = "window:0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9,8,bias_1";
constexpr std::string_view kStageOne = "nentropy:0.2|0.4|0.6";
constexpr double kMostRows = 0.9;  // of a training set: some may be held out

// Whether a figure is of the paper's own method. DeeBERT's baseline is its first stage, which is its last exit; the
// plain models that PABEE and RomeBERT are compared with are other trainings.
bool is_of(const Paper& paper, const PublishedFigure& figure) {
  const std::string& method = figure.method;
  if (paper.name == "deebert") {
    return (figure.paper == "DeeBERT" && (method == "Baseline" || method.starts_with("DeeBERT "))) ||
           (figure.paper == "RomeBERT" && method == "DeeBERT");
  }
  if (paper.name.starts_with("romebert")) return figure.paper == "RomeBERT" && method == "RomeBERT";
  if (paper.name == "deebert-sd") return figure.paper == "RomeBERT" && method == "DeeBERT+SD";
  if (paper.name == "pabee") return figure.paper == "PABEE" && method == "PABEE";
  if (paper.name.starts_with("elbert")) {
    return figure.paper == "ELBERT" && (method.find("equal") != std::string::npos) == (paper.name == "elbert-equal");
  }
  return figure.paper == "ElasticBERT";
}

std::optional<double> value_of(const std::vector<Score>& metrics, Metric metric) {
  for (const Score& score : metrics) {
    if (score.metric == metric) return score.value;
  }
  return std::nullopt;
}

// Normalised entropy is the same rule: on one task it is the entropy over a constant.
std::string_view leading_rule(std::string_view policy) {
  const std::string_view rule = policy.substr(0, policy.find(':'));
  return rule == "nentropy" ? "entropy" : rule;
}

// ELBERT's figures at a threshold are of its first stage, which is the entropy alone.
std::string_view rule_of_paper(const Paper& paper, const PublishedFigure& figure) {
  return figure.threshold ? "entropy" : paper.rule;
}

// 6 of "elasticbert-base-6l": how many layers were kept; 0 = all.
int layers_kept(std::string_view backbone) {
  const size_t dash = backbone.rfind('-');
  if (dash == std::string_view::npos || !backbone.ends_with('l')) return 0;
  return number_of<int>(backbone.substr(dash + 1, backbone.size() - dash - 2)).value_or(0);
}

bool has_exit(const OurScores& reached, int layer) {
  return std::any_of(reached.exits.begin(), reached.exits.end(),
                     [&](const OurScores::Exit& exit) { return exit.layer == layer; });
}

bool is_also(const Paper& paper, const OurScores& reached) {
  return !paper.also.empty() && reached.recipe == paper.also;
}

double apart_in_speed(double one, double other) {
  return std::max(one / other, other / one);
}

const OurScores::Point* nearest_in_speed(const OurScores& reached, std::string_view rule, double speedup) {
  const OurScores::Point* best = nullptr;
  for (const OurScores::Point& point : reached.points) {
    if (leading_rule(point.policy) != rule) continue;
    if (best == nullptr || apart_in_speed(point.speedup, speedup) < apart_in_speed(best->speedup, speedup))
      best = &point;
  }
  return best;
}

const OurScores::Point* named(const OurScores& reached, const std::string& policy) {
  const auto found = std::find_if(reached.points.begin(), reached.points.end(),
                                  [&](const OurScores::Point& point) { return point.policy == policy; });
  return found == reached.points.end() ? nullptr : &*found;
}

void take_score(const std::vector<Score>& metrics, Comparison& row) {
  row.ours = value_of(metrics, row.figure->metric);
  if (row.ours && !std::isfinite(*row.ours)) row.ours.reset();
  if (!row.ours) row.reason = fmt::format("ours has no {} for it", name_of(row.figure->metric));
}

void take_exit(const OurScores& reached, int layer, Comparison& row) {
  const int depth = reached.exits.back().layer;
  row.setting = reached.cut_short ? fmt::format("{} layers", layer) : fmt::format("exit {}", layer);
  for (const OurScores::Exit& exit : reached.exits) {
    if (exit.layer != layer) continue;
    row.speedup = static_cast<double>(depth) / layer;
    row.constant = exit.constant;
    return take_score(exit.metrics, row);
  }
  row.reason = fmt::format("ours has no exit {}", layer);
}

void take_point(const OurScores::Point& point, Comparison& row) {
  row.setting = point.policy;
  row.speedup = point.speedup;
  row.clock = point.clock;
  row.constant = point.constant;
  take_score(point.metrics, row);
}

// Another rule at the same cost would be another method, and the same rule at another cost another point of its curve.
void take_nearest(const OurScores& reached, std::string_view rule, Comparison& row) {
  const double wanted = *row.figure->speedup;
  const OurScores::Point* point = nearest_in_speed(reached, rule, wanted);
  if (point == nullptr) {
    row.reason = fmt::format("no setting of {} was measured", rule);
  } else if (apart_in_speed(point->speedup, wanted) > kSameSpeed) {
    row.reason =
        fmt::format("no setting of {} is near {:.2f}x; {} is at {:.2f}x", rule, wanted, point->policy, point->speedup);
  } else {
    take_point(*point, row);
  }
}

void take_ours(const Paper& paper, const OurScores& reached, Comparison& row) {
  const PublishedFigure& figure = *row.figure;
  if (reached.exits.empty()) {
    if (figure.exit) row.setting = fmt::format("exit {}", *figure.exit);
    row.reason = fmt::format("nothing of ours is on {}", reached.task);
    return;
  }
  if (figure.exit) return take_exit(reached, *figure.exit, row);
  if (figure.threshold && *figure.threshold > 0) {
    if (const auto* point = named(reached, fmt::format("nentropy:{}", *figure.threshold)))
      return take_point(*point, row);
  }
  if (figure.speedup && *figure.speedup > 1) return take_nearest(reached, rule_of_paper(paper, figure), row);
  const int depth = reached.exits.back().layer, kept = layers_kept(figure.backbone);
  take_exit(reached, kept > 0 && has_exit(reached, kept) ? kept : depth, row);
  if (row.setting == fmt::format("exit {}", depth) && !is_also(paper, reached)) row.setting = "full";
}

// What differs besides the score.
std::string differences(const OurScores& reached, const Comparison& row) {
  const PublishedFigure& figure = *row.figure;
  std::vector<std::string> found;
  if (reached.backbone.empty()) {
    found.emplace_back("unnamed backbone");
  } else if (figure.backbone != reached.backbone) {
    found.emplace_back("another backbone");
  }
  if (!reached.caveat.empty()) found.push_back(reached.caveat);
  if (!reached.settings.empty()) found.emplace_back("other settings");
  if (static_cast<double>(reached.train_rows) < kMostRows * static_cast<double>(reached.all_train_rows))
    found.emplace_back("ours was trained on fewer rows");
  if (reached.other_data) found.emplace_back("other data");
  if (row.constant) found.emplace_back("ours gives all texts one answer");
  if (figure.speedup && row.speedup && apart_in_speed(*row.speedup, *figure.speedup) > kSameSpeed)
    found.emplace_back("another speed");
  if (figure.split != reached.split) found.push_back(fmt::format("theirs is on {}", figure.split));
  return fmt::format("{}", fmt::join(found, ", "));
}

// Of a score that was measured.
Verdict side_of(const Comparison& row) {
  const double apart = *row.ours - row.figure->score;
  return std::fabs(apart) <= row.tolerance ? Verdict::within : apart > 0 ? Verdict::above : Verdict::below;
}

void judge(const OurScores& reached, Comparison& row) {
  if (!row.ours) return;
  row.tolerance = tolerance_of(*row.figure, reached.rows);
  row.reason = differences(reached, row);
  row.verdict = row.reason.empty() ? side_of(row) : Verdict::not_comparable;
}

// The paper's main backbone, whole, or truncated to as many layers as our model.
bool is_main(const Paper& paper, const OurScores& reached, const PublishedFigure& figure) {
  if (figure.backbone == paper.backbone) return true;
  const int kept = layers_kept(figure.backbone);
  return kept > 0 && figure.backbone == fmt::format("{}-{}l", paper.backbone, kept) && has_exit(reached, kept);
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return fmt::format("{}", value.get<double>());
  return value.is_null() ? "none" : value.dump();
}

// Both hold the same fields.
void compare_fields(const std::string& name, const Json& paper, const Json& own, std::vector<std::string>& out) {
  if (paper == own) return;
  if (paper.is_object() && own.is_object()) {
    for (const auto& [key, value] : own.items()) compare_fields(key, paper.value(key, Json()), value, out);
  } else if (paper.is_array() && own.is_array() && paper.size() == own.size()) {
    for (size_t i = 0; i < own.size(); ++i) compare_fields(name, paper[i], own[i], out);
  } else {
    std::string text = fmt::format("{} {}, not {}", name, text_of(own), text_of(paper));
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  }
}

constexpr std::string_view kElue = "elue/";  // before the names of tasks with ELUE's own data
constexpr int64_t kMaxCount = int64_t{1} << 40;

std::vector<Score> scores_in(const Json& entry) {
  std::vector<Score> out;
  for (const auto& [name, value] : entry.items()) {
    const auto metric = metric_named(name);
    if (metric && value.is_number()) out.push_back({*metric, value.get<double>()});
  }
  return out;
}

void read_exits(JsonObject& object, OurScores& reached) {
  const Json& exits = object.get("exits");
  if (!exits.is_array() || exits.empty()) object.fail("exits", glimpse(exits), "a list of exits");
  for (const Json& entry : exits) {
    JsonObject exit(entry, object.where() + ": exits");
    reached.exits.push_back({static_cast<int>(exit.integer("layer", 1, kMaxLayers)), scores_in(entry)});
    if (reached.exits.size() > 1 && reached.exits[reached.exits.size() - 2].layer >= reached.exits.back().layer)
      exit.fail("layer", fmt::format("{}", reached.exits.back().layer), "a deeper exit than the one before");
  }
}

void read_settings(JsonObject& object, OurScores& reached) {
  const Json* settings = object.find("settings");
  if (settings == nullptr) return;
  if (!settings->is_array()) object.fail("settings", glimpse(*settings), "a list of settings");
  for (const Json& entry : *settings) {
    JsonObject setting(entry, object.where() + ": settings");
    const double layers = setting.number("layers");
    if (layers <= 0) setting.fail("layers", fmt::format("{}", layers), "a number above 0");
    reached.points.push_back({setting.string("policy"), reached.exits.back().layer / layers, scores_in(entry)});
  }
}

OurScores read_one(const Json& value, const std::string& where, const Paper& paper) {
  JsonObject object(value, where);
  const std::string name = object.string("task");
  const Task* task = find_task_or_null(name);
  if (task == nullptr) object.fail("task", name, "a task of GLUE or ELUE");
  const bool elue = task->name.starts_with(kElue);
  OurScores reached{.task = std::string(elue ? task->name.substr(kElue.size()) : task->name), .split = "dev"};
  reached.recipe = object.string("recipe");
  reached.backbone = object.string_or("backbone", "");
  // The name in the published figures, if it is the paper's own.
  if (reached.backbone == paper.model.substr(paper.model.rfind('/') + 1)) reached.backbone = paper.backbone;
  reached.cut_short = object.boolean_or("cut_short", false);
  if (elue) reached.caveat = "ours is on ELUE's data";
  if (!paper.caveat.empty()) reached.caveat = paper.caveat;
  if (is_also(paper, reached)) reached.caveat = "all exits trained together";
  reached.seeds = static_cast<int>(object.integer_or("seeds", 1, 1 << 20, 1));
  const SplitFile *dev = task->find(Split::dev), *train = task->find(Split::train);
  reached.rows = dev == nullptr ? 0 : dev->rows;
  reached.train_rows = object.integer_or("train_rows", 0, kMaxCount, 0);
  if (reached.train_rows > 0 && train != nullptr) reached.all_train_rows = train->rows;
  if (object.has("differs")) reached.settings = object.strings("differs");
  read_exits(object, reached);
  read_settings(object, reached);
  object.finish();
  return reached;
}

[[noreturn]] void throw_nothing_fits(const std::string& where, const Paper& paper, const std::string& task,
                                     const std::vector<OurScores>& others) {
  std::vector<std::string> recipes{std::string(paper.recipe)}, held;
  if (!paper.also.empty()) recipes.emplace_back(paper.also);
  const std::vector<std::string> with_figures = tasks_of(paper);
  for (const std::string& recipe : recipes) {
    std::set<std::string> tasks;
    for (const OurScores& other : others) {
      const bool compared = std::find(with_figures.begin(), with_figures.end(), other.task) != with_figures.end();
      if (other.recipe == recipe && compared) tasks.insert(other.task);
    }
    if (!tasks.empty()) held.push_back(fmt::format("{} on {}", recipe, fmt::join(tasks, ", ")));
  }
  throw Error(Code::usage, fmt::format("{}: got no scores of recipe {} on {}", where, fmt::join(recipes, " or "), task),
              fmt::format("{}to train it: exeunt reproduce {} --task {} --model DIR --data DIR",
                          held.empty() ? "" : fmt::format("it has: {}; ", fmt::join(held, "; ")), paper.name, task));
}

}  // namespace

const std::vector<Paper>& all_papers() {
  static const std::vector<Paper> papers{
      {"deebert", "deebert", "bert-base-uncased", "bert-base", "entropy", {kEntropies}},
      {"deebert-sd", "deebert-sd", "bert-base-uncased", "bert-base", "entropy", {kEntropies}},
      {"romebert", "romebert", "bert-base-uncased", "bert-base", "entropy", {kEntropies}},
      {.name = "romebert-sd",
       .recipe = "romebert-sd",
       .model = "bert-base-uncased",
       .backbone = "bert-base",
       .rule = "entropy",
       .settings = {kEntropies},
       .caveat = "ours has no gradient regularization"},
      {"pabee", "pabee", "albert-base-v2", "albert-base", "patience", {"patience:1..11"}},
      {"elasticbert", "elasticbert-static", "fnlp/elasticbert-base", "elasticbert-base", "", {"full"}, "elasticbert"},
      {"elbert", "elbert", "albert-large-v2", "albert-large", "window", {kWindows, kStageOne}},
      {"elbert-equal", "elbert-equal", "albert-base-v2", "albert-base", "window", {kWindows, kStageOne}}};
  return papers;
}

const Paper& paper_named(std::string_view name) {
  std::vector<std::string> known;
  for (const Paper& paper : all_papers()) {
    if (paper.name == name) return paper;
    known.emplace_back(paper.name);
  }
  throw Error(Code::usage, fmt::format("unknown paper '{}'", name.substr(0, 64)), suggestion(name, known));
}

std::vector<std::string> tasks_of(const Paper& paper) {
  std::vector<std::string> tasks;
  for (const PublishedFigure& figure : published_figures()) {
    const std::string task = figure.task == "MNLI-mm" ? "MNLI" : figure.task;
    if (is_of(paper, figure) && std::find(tasks.begin(), tasks.end(), task) == tasks.end()) tasks.push_back(task);
  }
  return tasks;
}

std::vector<OurScores> reached_in(const Json& scores, const std::string& where, const Paper& paper,
                                  const std::string& task) {
  JsonObject object(scores, where);
  (void)object.choice("format", {"exeunt.scores/1"});
  const Json& results = object.get("results");
  if (!results.is_array()) object.fail("results", glimpse(results), "a list");
  std::vector<OurScores> out, others, mismatched;
  for (const Json& entry : results) {
    OurScores reached = read_one(entry, where, paper);
    const bool fits = reached.recipe == paper.recipe || is_also(paper, reached);
    const bool second = task == "MNLI" && reached.task == "MNLI-mm";
    (!fits || (reached.task != task && !second) ? others : second ? mismatched : out).push_back(std::move(reached));
  }
  if (out.empty()) throw_nothing_fits(where, paper, task, others);
  if (task == "MNLI" && mismatched.empty())
    mismatched.push_back({.task = "MNLI-mm", .split = "dev", .backbone = out.front().backbone});
  out.insert(out.end(), mismatched.begin(), mismatched.end());
  return out;
}

std::string backbone_name(const ModelSpec& spec) {
  struct Size {
    int layers, hidden;
    std::string_view name;
  };
  constexpr std::array<Size, 2> kSizes{{{12, 768, "base"}, {24, 1024, "large"}}};
  const std::string shape = fmt::format("{} {}x{}", name_of(spec.family), spec.layers, spec.hidden);
  for (const Size& size : kSizes) {
    if (spec.hidden != size.hidden || spec.layers > size.layers) continue;
    if (spec.inner != 4 * spec.hidden) return fmt::format("{}, feed-forward {}", shape, spec.inner);
    if (spec.heads != spec.hidden / 64) return fmt::format("{}, {} heads", shape, spec.heads);
    const std::string name = fmt::format("{}-{}", name_of(spec.family), size.name);
    return spec.layers == size.layers ? name : fmt::format("{}-{}l", name, spec.layers);
  }
  return shape;
}

std::vector<std::string> other_settings(const Paper& paper, const Json& recipe, Family family) {
  Json own = recipe;
  const Json run = own.value("run", Json::object());
  Recipe papers_own = recipe_for(find_recipe(std::string(paper.recipe)), run.value("task", ""), 0);
  for (StageSpec& stage : papers_own.stages) stage.epochs = {.value = number_for(stage.epochs, {.family = family})};
  const Json wanted(recipe_json(papers_own));
  for (const char* field : {"run", "provenance", "policy", "seed"}) own.erase(field);
  std::vector<std::string> out;
  compare_fields("", wanted, own, out);
  const Json papers{{"precision", "fp32"}, {"max_length", 128}, {"accumulation", 1},   {"world", 1},
                    {"max_steps", 0},      {"window", 0},       {"adam_epsilon", 1e-8}};
  for (const auto& [name, value] : papers.items()) compare_fields(name, value, run.value(name, value), out);
  if (const double steps = run.value("warmup_steps", -1.0); steps >= 0)
    out.push_back(fmt::format("{} warm-up steps, not a share", steps));
  return out;
}

std::string_view name_of(Verdict verdict) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"within", "above", "below", "not comparable", "not measured"};
  return kNames[static_cast<size_t>(verdict)];
}

double tolerance_of(const PublishedFigure& figure, int64_t rows) {
  const double score = figure.score, n = std::max<double>(1, static_cast<double>(rows));
  const bool correlation = figure.metric == Metric::matthews_correlation || figure.metric == Metric::pearson ||
                           figure.metric == Metric::spearmanr || figure.task == "STS-B";
  const double error = correlation ? (1 - score * score) / std::sqrt(n) : std::sqrt(score * (1 - score) / n);
  return figure.reading_error + 2 * error;
}

std::vector<Comparison> compare(const Paper& paper, const OurScores& reached) {
  std::vector<Comparison> own, main;
  for (const PublishedFigure& figure : published_figures()) {
    if (!is_of(paper, figure) || figure.task != reached.task) continue;
    const bool same = figure.backbone == reached.backbone;
    if (!same && !is_main(paper, reached, figure)) continue;
    Comparison row{.figure = &figure};
    take_ours(paper, reached, row);
    if (is_also(paper, reached)) row.setting += fmt::format(" of {}", reached.recipe);
    judge(reached, row);
    (same ? own : main).push_back(std::move(row));
  }
  return own.empty() ? main : own;
}

std::string verdict_text(const Comparison& comparison) {
  if (!comparison.ours) return comparison.reason;
  const Verdict side = side_of(comparison);
  if (comparison.reason.empty()) return std::string(name_of(side));
  return fmt::format("{} ({})", side == Verdict::within ? "near" : name_of(side), comparison.reason);
}

OrderedJson comparison_json(const Comparison& comparison) {
  const PublishedFigure& figure = *comparison.figure;
  const auto or_null = [](const auto& value) { return value ? OrderedJson(*value) : OrderedJson(nullptr); };
  OrderedJson out;
  out["paper"] = figure.paper;
  out["method"] = figure.method;
  out["backbone"] = figure.backbone;
  out["task"] = figure.task;
  out["split"] = figure.split;
  out["metric"] = std::string(name_of(figure.metric));
  out["exit"] = or_null(figure.exit);
  out["threshold"] = or_null(figure.threshold);
  out["published"] = figure.score;
  out["published_speedup"] = or_null(figure.speedup);
  out["setting"] = comparison.setting;
  out["ours"] = or_null(comparison.ours);
  out["speedup"] = or_null(comparison.speedup);
  out["clock_speedup"] = or_null(comparison.clock);
  out["difference"] = comparison.ours ? OrderedJson(*comparison.ours - figure.score) : OrderedJson(nullptr);
  out["tolerance"] = comparison.ours ? OrderedJson(comparison.tolerance) : OrderedJson(nullptr);
  out["verdict"] = std::string(name_of(comparison.verdict));
  out["reason"] = comparison.reason;
  out["source"] = figure.source;
  return out;
}

namespace {

constexpr double kHalfADigit = 0.05;  // tables give percentages with one decimal

// The three definitions of speed-up, converted to one: full depth over what was run.
std::optional<double> speedup_of(const Json& speed, std::string& meaning) {
  if (speed.is_null()) return std::nullopt;
  meaning = speed.at("meaning").get<std::string>();
  const double value = speed.at("value").get<double>();
  if (meaning == "speedup_ratio") return value;
  if (meaning == "cost_fraction") return 1 / value;
  check(meaning == "time_saved", "a known meaning of speed");
  return 1 / (1 - value);
}

std::vector<PublishedFigure> read_all() {
  std::vector<PublishedFigure> out;
  for (const char* name : {"deebert.json", "pabee.json", "elasticbert.json", "romebert.json", "elbert.json"}) {
    const Json file = parse_json(papers_file(name), name);
    for (const Json& row : file.at("rows")) {
      PublishedFigure figure;
      figure.paper = file.at("paper").get<std::string>();
      figure.method = row.at("method").get<std::string>();
      figure.backbone = row.at("backbone").get<std::string>();
      figure.task = row.at("task").get<std::string>();
      figure.split = row.at("split").get<std::string>();
      figure.source = row.at("source").get<std::string>();
      const auto metric = metric_named(row.at("metric").get<std::string>());
      check(metric.has_value(), "a known metric among the published figures");
      figure.metric = *metric;
      figure.score = row.at("score").get<double>() / 100;
      figure.speedup = speedup_of(row.at("speed"), figure.speed_meaning);
      figure.reading_error = row.value("tolerance", kHalfADigit) / 100;
      if (row.contains("exit")) figure.exit = row.at("exit").get<int>();
      if (row.contains("threshold")) figure.threshold = row.at("threshold").get<double>();
      out.push_back(std::move(figure));
    }
  }
  return out;
}

}  // namespace

const std::vector<PublishedFigure>& published_figures() {
  static const std::vector<PublishedFigure> figures = read_all();
  return figures;
}

std::vector<PublishedFigure> published_for(std::string_view task, Metric metric) {
  std::vector<PublishedFigure> out;
  for (const PublishedFigure& figure : published_figures()) {
    if (figure.task == task && figure.metric == metric) out.push_back(figure);
  }
  return out;
}

}  // namespace exeunt
