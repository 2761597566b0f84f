// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/reproduction.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

// DeeBERT's thresholds, and steps between them for points of which the paper gives the speed alone.
constexpr std::string_view kEntropies =
    "entropy:0|0.001|0.005|0.01|0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.35|0.4|0.45|0.5|0.55|0.6|0.65|0.7";

// Whether a figure is of the paper's own method. DeeBERT's baseline is its first stage, which is its last exit; the
// plain models that PABEE and RomeBERT are compared with are other trainings.
bool is_of(const Paper& paper, const PublishedFigure& figure) {
  const std::string& method = figure.method;
  if (paper.name == "deebert") {
    return (figure.paper == "DeeBERT" && (method == "Baseline" || method.starts_with("DeeBERT "))) ||
           (figure.paper == "RomeBERT" && method == "DeeBERT");
  }
  if (paper.name == "romebert") return figure.paper == "RomeBERT" && method == "RomeBERT";
  if (paper.name == "pabee") return figure.paper == "PABEE" && method == "PABEE";
  if (paper.name == "elbert") return figure.paper == "ELBERT" && method.find("equal") == std::string::npos;
  return figure.paper == "ElasticBERT";
}

std::optional<double> value_of(const std::vector<Score>& metrics, Metric metric) {
  for (const Score& score : metrics) {
    if (score.metric == metric) return score.value;
  }
  return std::nullopt;
}

const Reached::Point* nearest_in_speed(const Reached& reached, double speedup) {
  const Reached::Point* best = nullptr;
  const auto distance = [&](const Reached::Point& point) { return std::fabs(std::log(point.speedup / speedup)); };
  for (const Reached::Point& point : reached.points) {
    if (best == nullptr || distance(point) < distance(*best)) best = &point;
  }
  return best;
}

const Reached::Point* named(const Reached& reached, const std::string& policy) {
  const auto found = std::find_if(reached.points.begin(), reached.points.end(),
                                  [&](const Reached::Point& point) { return point.policy == policy; });
  return found == reached.points.end() ? nullptr : &*found;
}

void take_exit(const Reached& reached, int layer, Comparison& row) {
  row.setting = fmt::format("exit {}", layer);
  for (const Reached::Exit& exit : reached.exits) {
    if (exit.layer == layer) row.ours = value_of(exit.metrics, row.figure->metric);
  }
}

void take_point(const Reached::Point* point, Comparison& row) {
  if (point == nullptr) return;
  row.setting = point->policy;
  row.ours = value_of(point->metrics, row.figure->metric);
  row.speedup = point->speedup;
}

void take_ours(const Reached& reached, Comparison& row) {
  const PublishedFigure& figure = *row.figure;
  if (figure.exit) return take_exit(reached, *figure.exit, row);
  if (figure.threshold && *figure.threshold > 0)
    return take_point(named(reached, fmt::format("nentropy:{}", *figure.threshold)), row);
  if (figure.speedup && *figure.speedup > 1) return take_point(nearest_in_speed(reached, *figure.speedup), row);
  if (!reached.exits.empty()) {
    take_exit(reached, reached.exits.back().layer, row);
    row.setting = "full";
    row.speedup = 1;
  }
}

void judge(const Reached& reached, Comparison& row) {
  const PublishedFigure& figure = *row.figure;
  if (!row.ours || !std::isfinite(*row.ours)) {
    row.ours.reset();
    row.reason = "nothing of ours to compare it with";
    return;
  }
  row.tolerance = tolerance_of(figure, reached.rows);
  row.verdict = Verdict::not_comparable;
  if (figure.backbone != reached.backbone) {
    row.reason = "another backbone";
  } else if (figure.split != reached.split) {
    row.reason = fmt::format("theirs is on {}", figure.split);
  } else {
    const double apart = *row.ours - figure.score;
    row.verdict = std::fabs(apart) <= row.tolerance ? Verdict::within : apart > 0 ? Verdict::above : Verdict::below;
  }
}

}  // namespace

const std::vector<Paper>& all_papers() {
  static const std::vector<Paper> papers{
      {"deebert", "deebert", "bert-base-uncased", "bert-base", {kEntropies}},
      {"romebert", "romebert", "bert-base-uncased", "bert-base", {kEntropies}},
      {"pabee", "pabee", "albert-base-v2", "albert-base", {"patience:1..11"}},
      {"elasticbert", "elasticbert-static", "fnlp/elasticbert-base", "elasticbert-base", {"full"}},
      {"elbert",
       "elbert",
       "albert-large-v2",
       "albert-large",
       {"window:0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9,8,bias_1", "nentropy:0.2|0.4|0.6"}}};
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

std::string backbone_name(const ModelSpec& spec) {
  struct Size {
    int layers, hidden;
    std::string_view name;
  };
  constexpr std::array<Size, 2> kSizes{{{12, 768, "base"}, {24, 1024, "large"}}};
  for (const Size& size : kSizes) {
    if (spec.hidden != size.hidden || spec.layers > size.layers) continue;
    const std::string name = fmt::format("{}-{}", name_of(spec.family), size.name);
    return spec.layers == size.layers ? name : fmt::format("{}-{}l", name, spec.layers);
  }
  return fmt::format("{} {}x{}", name_of(spec.family), spec.layers, spec.hidden);
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

std::vector<Comparison> compare(const Paper& paper, const Reached& reached) {
  std::vector<Comparison> own, main;
  for (const PublishedFigure& figure : published_figures()) {
    if (!is_of(paper, figure) || figure.task != reached.task) continue;
    const bool same = figure.backbone == reached.backbone;
    if (!same && figure.backbone != paper.backbone) continue;
    Comparison row{.figure = &figure};
    take_ours(reached, row);
    judge(reached, row);
    (same ? own : main).push_back(std::move(row));
  }
  return own.empty() ? main : own;
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
  out["published"] = figure.score;
  out["published_speedup"] = or_null(figure.speedup);
  out["setting"] = comparison.setting;
  out["ours"] = or_null(comparison.ours);
  out["speedup"] = or_null(comparison.speedup);
  out["tolerance"] = comparison.tolerance;
  out["verdict"] = std::string(name_of(comparison.verdict));
  out["reason"] = comparison.reason;
  out["source"] = figure.source;
  return out;
}

}  // namespace exeunt
