// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/published.h"

#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "lab/built_in.h"

namespace exeunt {
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
