// SPDX-License-Identifier: Apache-2.0
#include "lab/report/report_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lab/papers/reproduction.h"
#include "lab/report/chart.h"

namespace exeunt {

namespace {

constexpr int kPalette = 8;         // colours of web/report.css; the last is grey
constexpr double kShownBelow = 14;  // points of quality below full depth that a figure shows

// Runs on the same data, in the order in which they are named: of one task, or of one file of the user's own.
using DataRuns = std::vector<const ShownRun*>;
std::vector<DataRuns> by_data(const std::vector<ShownRun>& all) {
  std::vector<DataRuns> sets;
  const auto same = [](const TraceInfo& a, const TraceInfo& b) {
    return a.task == b.task && (!a.task.empty() || a.data == b.data);
  };
  for (const ShownRun& shown : all) {
    auto place = std::find_if(sets.begin(), sets.end(), [&](const DataRuns& known) {
      return same(known.front()->run->trace->info, shown.run->trace->info);
    });
    if (place == sets.end()) place = sets.insert(sets.end(), DataRuns{});
    place->push_back(&shown);
  }
  return sets;
}

// One line per rule of the run, each from full depth on.
void add_rules(const ShownRun& shown, Chart& chart) {
  std::vector<std::pair<std::string, std::vector<ChartPoint>>> lines;
  const auto point = [&](const PolicyScore& score) {
    return ChartPoint{score.cost.speedup_ratio, 100 * shown.quality(score), score.policy};
  };
  for (const SweepRow& row : shown.rows) {
    const std::string rule = rule_name(row.score.policy);
    if (rule == "full" || !std::isfinite(point(row.score).y)) continue;
    auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& known) { return known.first == rule; });
    if (line == lines.end()) line = lines.insert(lines.end(), {rule, {point(shown.full)}});
    line->second.push_back(point(row.score));
  }
  int style = 0;
  for (auto& [rule, points] : lines) {
    std::stable_sort(points.begin(), points.end(), [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    chart.series.push_back({.name = fmt::format("{}, {}", shown.run->name, rule),
                            .colour = shown.colour,
                            .points = std::move(points),
                            .style = style++,
                            .help = std::string(explained(rule))});
  }
  if (shown.run->certificate && std::isfinite(point(shown.chosen).y)) {
    chart.series.push_back({.name = fmt::format("{}, certified", shown.run->name),
                            .mark = Mark::dots,
                            .colour = shown.colour,
                            .points = {point(shown.chosen)},
                            .style = kStyles - 1,  // a diamond, among the lines' round marks
                            .help = shown.run->promise});
  }
}

void add_published_points(const ShownRun& shown, Chart& chart) {
  std::map<std::string, ChartSeries> theirs;
  for (const PublishedFigure& figure : published_for(shown.run->trace->info.task, shown.metric)) {
    if (figure.exit || !figure.speedup || *figure.speedup > chart.x_range->second) continue;
    ChartSeries& series = theirs[fmt::format("{} ({})", figure.paper, figure.backbone)];
    series.points.push_back({*figure.speedup, 100 * figure.score,
                             fmt::format("{}, {}, {}", figure.method, figure.split, figure.speed_meaning)});
  }
  int style = 0;
  for (auto& [name, series] : theirs) {
    series.name = name;
    series.mark = Mark::dots;
    series.colour = style < kStyles ? kPalette - 1 : kPalette - 2;  // shapes repeat in another colour
    series.faint = true;
    series.style = style++;
    chart.series.push_back(std::move(series));
  }
}

// From the best point down to kShownBelow or the lowest certified one: a poor setting must not flatten the others.
std::pair<double, double> worth_showing(const Chart& chart, double full, double certified) {
  double low = full, high = full;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& p : series.points) {
      low = std::min(low, p.y);
      high = std::max(high, p.y);
    }
  }
  low = std::max(low, std::min(full - kShownBelow, certified));
  const std::vector<double> ticks = round_ticks(low, std::max(high, low + 1), 6);
  const double step = ticks[1] - ticks[0];
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step};
}

// A line ends at its last point within the range, instead of leaving the picture.
void hold_within(std::pair<double, double> range, Chart& chart) {
  for (ChartSeries& series : chart.series) {
    std::erase_if(series.points, [&](const ChartPoint& p) { return p.y < range.first || p.y > range.second; });
  }
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.points.empty(); });
}

// One figure per data set. Runs may have different exits; there is a bar for every layer that any of them has.
std::vector<BarChart> per_layer(const std::vector<DataRuns>& sets, const char* y_label,
                                const std::function<double(const ShownRun&, size_t)>& value) {
  std::vector<BarChart> charts;
  for (const DataRuns& runs : sets) {
    BarChart chart{.title = runs.front()->data_name(),
                   .x_label = "layer",
                   .y_label = y_label,
                   .labels = {},
                   .groups = {},
                   .percent = true};
    std::set<int> every;
    for (const ShownRun* shown : runs)
      every.insert(shown->run->trace->info.layers.begin(), shown->run->trace->info.layers.end());
    const std::vector<int> layers(every.begin(), every.end());
    for (const int layer : layers) chart.labels.push_back(std::to_string(layer));
    for (const ShownRun* shown : runs) {
      BarGroup group{shown->run->name, shown->colour, std::vector<double>(layers.size(), 0)};
      const std::vector<int>& own = shown->run->trace->info.layers;
      for (size_t exit = 0; exit < own.size(); ++exit) {
        const auto place = std::lower_bound(layers.begin(), layers.end(), own[exit]) - layers.begin();
        group.values[static_cast<size_t>(place)] = value(*shown, exit);
      }
      chart.groups.push_back(std::move(group));
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

std::string rule_name(const std::string& policy) {
  return policy.substr(0, policy.find(':'));
}

std::string ShownRun::quality_name() const {
  return labelled ? std::string(name_of(metric)) : "agreement with " + run->trace->reference_name();
}

std::string ShownRun::data_name() const {
  const std::string& task = run->trace->info.task;
  if (!task.empty()) return task;
  return run->data.empty() ? "User data" : run->data;
}

std::vector<Chart> quality_against_speed(const std::vector<ShownRun>& all, bool published) {
  std::vector<Chart> charts;
  for (const DataRuns& runs : by_data(all)) {
    const ShownRun& first = *runs.front();
    Chart chart{.title = first.data_name(),
                .x_label = "speed-up: layers / average layers",
                .y_label = first.quality_name() + ", %",
                .series = {}};
    double fastest = 1, full = 0, certified = 100;
    for (const ShownRun* shown : runs) {
      add_rules(*shown, chart);
      full = std::max(full, 100 * shown->quality(shown->full));
      if (shown->run->certificate) certified = std::min(certified, 100 * shown->quality(shown->chosen));
    }
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points) fastest = std::max(fastest, point.x);
    chart.x_range = {1, std::max(2.0, std::ceil(fastest))};  // full depth is 1: nothing lies left of it
    if (published && first.labelled) add_published_points(first, chart);
    if (std::isfinite(full)) {
      chart.y_range = worth_showing(chart, full, certified);
      hold_within(*chart.y_range, chart);
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> quality_per_exit(const std::vector<ShownRun>& all, bool published) {
  std::vector<Chart> charts;
  for (const DataRuns& runs : by_data(all)) {
    const ShownRun& first = *runs.front();
    Chart chart{.title = first.data_name(),
                .x_label = "exit after layer",
                .y_label = first.quality_name() + ", %",
                .series = {}};
    int deepest = 1;
    for (const ShownRun* shown : runs) {
      ChartSeries series{.name = shown->run->name, .colour = shown->colour, .points = {}};
      for (const ExitScore& exit : shown->exits) {
        const double quality = shown->quality(exit);
        if (std::isfinite(quality)) series.points.push_back({static_cast<double>(exit.layer), 100 * quality});
      }
      deepest = std::max(deepest, shown->run->trace->info.layers.back());
      chart.series.push_back(std::move(series));
    }
    std::map<std::string, ChartSeries> curves;
    for (const PublishedFigure& figure : published_for(first.run->trace->info.task, first.metric)) {
      if (!published || !first.labelled || !figure.exit) continue;
      curves[fmt::format("{} ({}, published)", figure.method, figure.backbone)].points.push_back(
          {static_cast<double>(*figure.exit), 100 * figure.score});
      deepest = std::max(deepest, *figure.exit);
    }
    int style = 0;
    for (auto& [name, series] : curves) {
      series.name = name;
      series.colour = kPalette - 1;
      series.faint = true;
      series.style = ++style;
      chart.series.push_back(std::move(series));
    }
    chart.x_range = {1, std::max(2, deepest)};
    chart.x_ticks = std::clamp(deepest - 1, 1, 12);  // there is no half of a layer
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<BarChart> exit_shares(const std::vector<ShownRun>& all) {
  return per_layer(by_data(all), "share of texts", [](const ShownRun& shown, size_t exit) {
    return static_cast<double>(shown.chosen.histogram[exit]) /
           static_cast<double>(std::max<size_t>(1, shown.run->trace->rows));
  });
}

std::vector<BarChart> calibration_errors(const std::vector<ShownRun>& all) {
  std::vector<DataRuns> sets = by_data(all);
  std::erase_if(sets, [](const DataRuns& runs) { return !runs.front()->classes; });
  return per_layer(sets, "calibration error",
                   [](const ShownRun& shown, size_t exit) { return shown.exits[exit].calibration_error; });
}

OrderedJson vega_lite_of(const std::vector<Chart>& charts) {
  OrderedJson values = OrderedJson::array();
  for (const Chart& chart : charts) {
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points)
        values.push_back({{"task", chart.title},
                          {"run", series.name},
                          {"published", series.faint},
                          {"speedup", point.x},
                          {"quality", point.y},
                          {"note", point.note}});
    }
  }
  const auto axis = [](const char* field, const std::string& title) {
    return OrderedJson{{"field", field}, {"type", "quantitative"}, {"title", title}, {"scale", {{"zero", false}}}};
  };
  OrderedJson encoding;
  encoding["x"] = axis("speedup", "layers / average layers");
  encoding["y"] = axis("quality", "quality, %");
  encoding["color"] = {{"field", "run"}, {"type", "nominal"}};
  encoding["tooltip"] = OrderedJson::array();
  for (const char* field : {"run", "note", "speedup", "quality"}) encoding["tooltip"].push_back({{"field", field}});
  OrderedJson ours, theirs;
  ours["transform"] = OrderedJson::array({OrderedJson{{"filter", "!datum.published"}}});
  ours["mark"] = {{"type", "line"}, {"point", true}};
  theirs["transform"] = OrderedJson::array({OrderedJson{{"filter", "datum.published"}}});
  theirs["mark"] = {{"type", "point"}, {"opacity", 0.6}};
  ours["encoding"] = theirs["encoding"] = encoding;

  OrderedJson out;
  out["$schema"] = "https://vega.github.io/schema/vega-lite/v5.json";
  out["title"] = "Quality against speed-up";
  out["data"]["values"] = std::move(values);
  out["facet"]["row"] = {{"field", "task"}, {"type", "nominal"}};
  out["spec"]["layer"] = OrderedJson::array({std::move(ours), std::move(theirs)});
  out["resolve"]["scale"]["y"] = "independent";
  return out;
}

namespace {

struct Term {
  std::string_view name = {}, meaning = {};
};

#include "terms.inc"  // made from terms.json

}  // namespace

std::string_view explained(std::string_view term) noexcept {
  const auto found = std::find_if(kTerms.begin(), kTerms.end(), [&](const Term& one) { return one.name == term; });
  return found == kTerms.end() ? std::string_view{} : found->meaning;
}

std::string term_html(std::string_view term, std::string_view shown) {
  const std::string text = escape_html(shown.empty() ? term : shown);
  const std::string_view meaning = explained(term);
  return meaning.empty() ? text : fmt::format(R"(<abbr title="{}">{}</abbr>)", escape_html(meaning), text);
}

}  // namespace exeunt
