// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/eval/assets.h"
#include "exeunt/eval/chart.h"
#include "exeunt/eval/examples.h"
#include "exeunt/eval/published.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/sweep.h"

namespace exeunt {
namespace {

constexpr int kPalette = 8;  // colours of web/report.css

// What is computed once for a run and shown in several places.
struct Shown {
  const ReportRun* run;
  int colour;
  std::vector<SweepRow> rows;
  std::vector<ExitScore> exits;
  PolicyScore chosen;
  Departures departures;
};

Shown look_at(const ReportRun& run, int colour) {
  Scorer scorer(*run.trace, run.scoring);
  Shown out{.run = &run,
            .colour = colour % kPalette,
            .rows = sweep(scorer, run.settings, run.primary),
            .exits = scorer.each_exit(),
            .chosen = {},
            .departures = replay(*run.trace, run.policy, run.scoring.last)};
  out.chosen = scorer.score(run.policy, out.departures);
  return out;
}

bool labelled(const Shown& shown) {
  return shown.run->trace->labelled();
}

std::string quality_name(const Shown& shown) {
  return labelled(shown) ? std::string(name_of(shown.run->primary)) : "agreement with full depth";
}

double quality_of(const Shown& shown, const std::vector<Score>& metrics, double agreement) {
  return labelled(shown) ? primary_of(metrics, shown.run->primary) : agreement;
}

std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.2f}", 100 * fraction) : "–";
}

std::string rule_of(const std::string& policy) {
  return policy.substr(0, policy.find(':'));
}

// One line per run and rule, from full depth on; dots where a rule has a single setting.
Chart quality_against_speed(const std::vector<Shown>& all, bool published) {
  Chart chart{.title = "Quality against speed-up",
              .x_label = "layers / average layers",
              .y_label = quality_name(all.front()),
              .series = {}};
  int colour = 0;
  for (const Shown& shown : all) {
    std::map<std::string, std::vector<ChartPoint>> lines;
    for (const SweepRow& row : shown.rows) {
      const double quality = quality_of(shown, row.score.metrics, row.score.agreement);
      if (std::isfinite(quality))
        lines[rule_of(row.score.policy)].push_back({row.score.cost.speedup_ratio, 100 * quality, row.score.policy});
    }
    for (auto& [rule, points] : lines) {
      std::sort(points.begin(), points.end(), [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
      const Mark mark = points.size() > 1 ? Mark::line : Mark::dots;
      chart.series.push_back(
          {fmt::format("{}, {}", shown.run->name, rule), mark, colour++ % kPalette, std::move(points)});
    }
  }
  double fastest = 1;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) fastest = std::max(fastest, point.x);
  }
  chart.x_range = {1, std::max(2.0, std::ceil(fastest))};  // full depth is 1: nothing lies left of it
  if (!published) return chart;
  std::map<std::string, ChartSeries> theirs;
  std::set<std::pair<std::string, Metric>> seen;
  for (const Shown& shown : all) {
    if (!labelled(shown) || !seen.insert({shown.run->trace->info.task, shown.run->primary}).second) continue;
    for (const PublishedFigure& figure : published_for(shown.run->trace->info.task, shown.run->primary)) {
      if (figure.exit || !figure.speedup || *figure.speedup > chart.x_range->second) continue;
      ChartSeries& series = theirs[fmt::format("{} ({}, published)", figure.paper, figure.backbone)];
      series.points.push_back({*figure.speedup, 100 * figure.score,
                               fmt::format("{}, {}, {}", figure.method, figure.split, figure.speed_meaning)});
    }
  }
  for (auto& [name, series] : theirs) {
    series.name = name;
    series.mark = Mark::dots;
    series.colour = 7;
    series.faint = true;
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// One figure per task: every run's score at each exit, and RomeBERT's published curves behind them.
std::vector<Chart> quality_per_exit(const std::vector<Shown>& all, bool published) {
  std::map<std::string, Chart> charts;
  for (const Shown& shown : all) {
    const std::string& task = shown.run->trace->info.task;
    Chart& chart = charts[task];
    if (chart.series.empty()) {
      chart = {.title = task.empty() ? "Quality at each exit" : "Quality at each exit: " + task,
               .x_label = "exit after layer",
               .y_label = quality_name(shown),
               .series = {}};
      std::map<std::string, std::vector<ChartPoint>> curves;
      if (published && labelled(shown)) {
        for (const PublishedFigure& figure : published_for(task, shown.run->primary)) {
          if (figure.exit)
            curves[fmt::format("{} ({}, published)", figure.method, figure.backbone)].push_back(
                {static_cast<double>(*figure.exit), 100 * figure.score});
        }
      }
      int colour = 4;
      for (auto& [name, points] : curves)
        chart.series.push_back({name, Mark::line, colour++ % kPalette, std::move(points), true});
    }
    ChartSeries series{shown.run->name, Mark::line, shown.colour, {}};
    for (const ExitScore& exit : shown.exits) {
      const double quality = quality_of(shown, exit.metrics, exit.agreement);
      if (std::isfinite(quality)) series.points.push_back({static_cast<double>(exit.layer), 100 * quality});
    }
    chart.series.push_back(std::move(series));
  }
  std::vector<Chart> out;
  for (auto& [task, chart] : charts) out.push_back(std::move(chart));
  return out;
}

// Runs may have different exits; bars stand at the layers that any of them has.
std::vector<std::string> all_layers(const std::vector<Shown>& all, std::vector<int>& layers) {
  std::set<int> every;
  for (const Shown& shown : all)
    every.insert(shown.run->trace->info.layers.begin(), shown.run->trace->info.layers.end());
  layers.assign(every.begin(), every.end());
  std::vector<std::string> names;
  for (const int layer : layers) names.push_back(std::to_string(layer));
  return names;
}

BarChart per_layer(const std::vector<Shown>& all, BarChart chart,
                   const std::function<double(const Shown&, size_t)>& value) {
  std::vector<int> layers;
  chart.labels = all_layers(all, layers);
  for (const Shown& shown : all) {
    BarGroup group{shown.run->name, shown.colour, std::vector<double>(layers.size(), 0)};
    const std::vector<int>& own = shown.run->trace->info.layers;
    for (size_t exit = 0; exit < own.size(); ++exit) {
      const auto place = std::lower_bound(layers.begin(), layers.end(), own[exit]) - layers.begin();
      group.values[static_cast<size_t>(place)] = value(shown, exit);
    }
    chart.groups.push_back(std::move(group));
  }
  return chart;
}

std::string cards(const std::vector<Shown>& all) {
  std::string out = "<div class=\"cards\">\n";
  const auto card = [&](const std::string& value, const std::string& what) {
    out += fmt::format("<div class=\"card\"><b>{}</b>{}</div>\n", escape_html(value), escape_html(what));
  };
  for (const Shown& shown : all) {
    const PolicyScore& score = shown.chosen;
    card(fmt::format("{:.2f}×", score.cost.speedup_ratio),
         fmt::format("fewer layers with {} ({})", score.policy, shown.run->name));
    card(percent(quality_of(shown, score.metrics, score.agreement)) + " %",
         fmt::format("{} ({})", quality_name(shown), shown.run->name));
    card(percent(score.agreement) + " %", fmt::format("answered as at full depth ({})", shown.run->name));
  }
  return out + "</div>\n";
}

std::string sweep_table(const Shown& shown) {
  std::string out = fmt::format("<div class=\"scroll\"><table><caption>{}</caption>\n<tr><th>policy</th>",
                                escape_html(shown.run->name));
  for (const Score& metric : shown.chosen.metrics) out += fmt::format("<th>{}</th>", name_of(metric.metric));
  out += "<th>agreement</th><th>average layers</th><th>layers / average</th><th>MFLOPs</th></tr>\n";
  for (const SweepRow& row : shown.rows) {
    out += fmt::format("<tr{}><td>{}</td>", row.on_front ? " class=\"front\"" : "", escape_html(row.score.policy));
    for (const Score& metric : row.score.metrics) out += fmt::format("<td>{}</td>", percent(metric.value));
    out += fmt::format("<td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{}</td></tr>\n", percent(row.score.agreement),
                       row.score.cost.average_layers, row.score.cost.speedup_ratio,
                       row.score.mflops ? fmt::format("{:.1f}", *row.score.mflops) : "–");
  }
  return out + "</table></div>\n";
}

std::string example_rows(const std::vector<ExampleRow>& examples) {
  std::string out;
  for (const ExampleRow& example : examples) {
    out += fmt::format("<tr><td class=\"text\">{}</td><td>{}</td><td class=\"{}\">{}</td><td>{}</td><td>{}</td></tr>\n",
                       escape_html(example.text), example.layer, example.right.value_or(true) ? "" : "wrong",
                       escape_html(example.answer), escape_html(example.full_depth), escape_html(example.gold));
  }
  return out;
}

std::string example_tables(const Shown& shown) {
  const ExampleSets sets = pick_examples(*shown.run->trace, shown.departures, shown.run->text);
  std::string out;
  const auto table = [&](const char* caption, const std::vector<ExampleRow>& rows) {
    if (rows.empty()) return;
    out += fmt::format(
        "<div class=\"scroll\"><table><caption>{}: {}</caption>\n<tr><th class=\"text\">text</th><th>left "
        "after</th><th>answer</th>"
        "<th>full depth</th><th>gold</th></tr>\n{}</table></div>\n",
        escape_html(shown.run->name), caption, example_rows(rows));
  };
  table("left first", sets.early);
  table("stayed longest", sets.late);
  table("left with another answer than full depth", sets.wrong);
  return out;
}

std::string page(const ReportOptions& options, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<title>{0}</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{2}</main>\n<script>\n{3}</"
      "script>\n</body>\n</html>\n",
      escape_html(options.title), asset("report.css"), body, asset("report.js"));
}

OrderedJson vega_of(const Chart& chart) {
  OrderedJson values = OrderedJson::array();
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points)
      values.push_back({{"run", series.name}, {"speedup", point.x}, {"quality", point.y}, {"note", point.note}});
  }
  OrderedJson out;
  out["$schema"] = "https://vega.github.io/schema/vega-lite/v5.json";
  out["title"] = chart.title;
  out["data"]["values"] = std::move(values);
  out["mark"] = {{"type", "line"}, {"point", true}, {"tooltip", true}};
  out["encoding"]["x"] = {{"field", "speedup"}, {"type", "quantitative"}, {"title", chart.x_label}};
  out["encoding"]["y"] = {
      {"field", "quality"}, {"type", "quantitative"}, {"title", chart.y_label}, {"scale", {{"zero", false}}}};
  out["encoding"]["color"] = {{"field", "run"}, {"type", "nominal"}};
  return out;
}

}  // namespace

std::vector<PolicySpec> default_settings(const ExitTrace& trace) {
  std::vector<PolicySpec> out = parse_sweep("full");
  const auto add = [&](const std::string& text) {
    for (PolicySpec& policy : parse_sweep(text)) out.push_back(std::move(policy));
  };
  const int most = std::max(1, std::min(trace.exits - 1, 10));
  if (trace.info.regression) {
    for (const char* tolerance : {"0.05", "0.1", "0.2", "0.4"}) add(fmt::format("patience:1|2|3,tol={}", tolerance));
    return out;
  }
  add("nentropy:0.01|0.02|0.05|0.1|0.15|0.2|0.3|0.4|0.5|0.6|0.7|0.8");
  add(fmt::format("patience:1..{}", most));
  return out;
}

Report make_report(const std::vector<ReportRun>& runs, const ReportOptions& options) {
  check(!runs.empty(), "a report has at least one run");
  std::vector<Shown> all;
  for (const ReportRun& run : runs) all.push_back(look_at(run, static_cast<int>(all.size())));

  const Chart front = quality_against_speed(all, options.published);
  std::string body =
      "<p class=\"soft\">Quality and cost of early exits, measured from one pass over the data.</p>\n" + cards(all);
  body += "<h2>Quality against speed-up</h2>\n<figure>" + draw(front) + "</figure>\n";
  if (options.published)
    body +=
        "<p class=\"soft\">Grey points were published for other backbones and splits; their speed-up is brought to one "
        "meaning.</p>\n";
  body += "<h2>Quality at each exit</h2>\n";
  for (const Chart& chart : quality_per_exit(all, options.published)) body += "<figure>" + draw(chart) + "</figure>\n";
  body += "<h2>Where texts leave</h2>\n<figure>" +
          draw(per_layer(all,
                         {.title = "Share of texts that leave at each exit",
                          .x_label = "layer",
                          .y_label = "share of texts",
                          .labels = {},
                          .groups = {},
                          .percent = true},
                         [](const Shown& s, size_t exit) {
                           return static_cast<double>(s.chosen.histogram[exit]) /
                                  static_cast<double>(std::max<size_t>(1, s.run->trace->rows));
                         })) +
          "</figure>\n";
  if (std::any_of(all.begin(), all.end(),
                  [](const Shown& s) { return labelled(s) && !s.run->trace->info.regression; })) {
    body += "<h2>Calibration</h2>\n<figure>" +
            draw(per_layer(all,
                           {.title = "Expected calibration error at each exit",
                            .x_label = "layer",
                            .y_label = "error",
                            .labels = {},
                            .groups = {},
                            .percent = true},
                           [](const Shown& s, size_t exit) { return s.exits[exit].calibration_error; })) +
            "</figure>\n";
  }
  for (const Shown& shown : all) {
    if (!shown.run->certificate) continue;
    body += fmt::format("<h2>Certificate: {}</h2>\n<pre>{}</pre>\n", escape_html(shown.run->name),
                        escape_html(json_text(*shown.run->certificate)));
  }
  body += "<h2>Settings</h2>\n<p class=\"soft\">● no other setting of the run is as good and cheaper.</p>\n";
  for (const Shown& shown : all) body += sweep_table(shown);
  std::string examples;
  for (const Shown& shown : all) examples += example_tables(shown);
  if (!examples.empty()) body += "<h2>Examples</h2>\n" + examples;
  body += "<h2>Environment</h2>\n<table>\n";
  for (const auto& [name, value] : options.environment)
    body += fmt::format("<tr><td>{}</td><td class=\"text\">{}</td></tr>\n", escape_html(name), escape_html(value));
  body += "</table>\n";

  Report report{.html = page(options, body), .csv = {}, .json = {}, .vega_lite = vega_of(front)};
  report.json["format"] = "exeunt.report/1";
  report.json["runs"] = OrderedJson::array();
  for (const Shown& shown : all) {
    std::string csv = sweep_csv(shown.rows);
    // One table for all runs: the run's name in front of every line, the header once.
    const size_t first = csv.find('\n') + 1;
    if (report.csv.empty()) report.csv = "run," + csv.substr(0, first);
    for (size_t at = first; at < csv.size(); at = csv.find('\n', at) + 1)
      report.csv += shown.run->name + "," + csv.substr(at, csv.find('\n', at) + 1 - at);
    OrderedJson run;
    run["name"] = shown.run->name;
    run["task"] = shown.run->trace->info.task;
    run["rows"] = shown.run->trace->rows;
    run["policy"] = score_json(shown.chosen);
    run["each_exit"] = exit_scores_json(shown.exits);
    run["sweep"] = sweep_json(shown.rows);
    run["certificate"] = shown.run->certificate ? *shown.run->certificate : OrderedJson(nullptr);
    report.json["runs"].push_back(std::move(run));
  }
  return report;
}

}  // namespace exeunt
