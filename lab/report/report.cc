// SPDX-License-Identifier: Apache-2.0
#include "lab/report/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/version.h"
#include "exeunt/certify/split.h"
#include "exeunt/certify/tries.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/data/rows.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/outputs/evidence.h"
#include "lab/built_in.h"
#include "lab/papers/reproduction.h"
#include "lab/report/chart.h"
#include "lab/report/report_figures.h"

namespace exeunt {

namespace {

constexpr size_t kShownCharacters = 240;

constexpr AnswerStyle kAnswerStyle{.none = "none", .value = "{:.3f}"};

std::string shown_gold(const ExitTrace& trace, size_t row) {
  const size_t width = trace.gold_width();
  const std::span<const float> gold = std::span(trace.gold).subspan(row * width, width);
  if (std::isnan(gold[0])) return {};
  if (trace.info.problem == Problem::classification) return trace.info.label(static_cast<int>(gold[0]));
  OutputSpec plain = trace.info;  // gold of multi_label is 1 or 0
  plain.logit_thresholds.clear();
  return answer_text(plain, gold, kAnswerStyle);
}

// Truncated at a whole character.
std::string shortened(std::string text) {
  if (text.size() <= kShownCharacters) return text;
  size_t end = kShownCharacters;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

constexpr int kRunColours = 6;  // of the palette in web/report.css; the rest is for published figures

std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.2f}", 100 * fraction) : "–";
}

// The task's own metric, unless the papers' points and curves are in another one that the run has, too.
Metric shown_metric(const ReportRun& run, const std::vector<Score>& scores, bool published) {
  const auto drawable = [&](Metric metric) {
    const std::vector<PublishedFigure> figures = published_for(run.trace->info.task, metric);
    return std::count_if(figures.begin(), figures.end(),
                         [](const PublishedFigure& figure) { return figure.exit || figure.speedup; });
  };
  Metric best = run.primary;
  for (const Score& score : scores)
    if (published && drawable(score.metric) > drawable(best)) best = score.metric;
  return best;
}

const PolicySpec& fitting(const ReportRun& run, const std::vector<SweepRow>& rows, const PolicySpec& full) {
  const PolicySpec* best = &full;
  double layers = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < rows.size(); ++i) {
    const PolicyScore& score = rows[i].score;
    if (score.agreement < kFittingAgreement || score.cost.average_layers >= layers) continue;
    best = &run.settings[i];
    layers = score.cost.average_layers;
  }
  return *best;
}

ShownRun shown_run(const ReportRun& run, int colour, bool published) {
  Scorer scorer(*run.trace, run.scoring);
  ShownRun out{.run = &run, .colour = colour % kRunColours};
  const PolicySpec full;
  out.rows = sweep(scorer, run.settings, run.primary);
  out.exits = scorer.each_exit();
  out.full = scorer.score(full);
  out.reference = {.layer = run.trace->info.layers.back(), .metrics = scorer.reference_quality(), .agreement = 1};
  const PolicySpec& chosen = run.policy ? *run.policy : fitting(run, out.rows, full);
  out.departures = replay(*run.trace, chosen, run.scoring.last);
  out.chosen = scorer.score(chosen, out.departures);
  out.labelled = run.trace->labelled();
  out.metric = shown_metric(run, out.full.metrics, published);
  if (out.labelled && run.trace->info.problem != Problem::regression) out.classes = scorer.classes(chosen);
  return out;
}

std::string cell(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "–";
}

// One row per run: its policy, quality and cost.
std::string summary_table(const std::vector<ShownRun>& all) {
  const bool mflops = std::ranges::any_of(all, [](const ShownRun& s) { return s.chosen.mflops.has_value(); });
  const bool times = std::ranges::any_of(all, [](const ShownRun& s) { return s.chosen.predicted_ms.has_value(); });
  std::string out =
      "<div class=\"scroll\"><table class=\"glance\">\n<tr><th>run</th><th class=\"text\">data</th><th "
      "class=\"text\">policy</th>";
  for (const char* name : {"quality", "at full depth", "agreement", "layers", "speed-up"})
    out += fmt::format("<th>{}</th>", term_html(name));
  if (mflops) out += fmt::format("<th>{}</th>", term_html("MFLOPs"));
  if (times) out += fmt::format("<th>{}</th>", term_html("ms"));
  out += fmt::format("<th class=\"text\">{}</th></tr>\n", term_html("certificate"));
  for (const ShownRun& shown : all) {
    const PolicyScore& score = shown.chosen;
    const ExitTrace& trace = *shown.run->trace;
    out += fmt::format(
        "<tr><td class=\"c{}\"><b>{}</b></td><td class=\"text\">{}</td><td class=\"text\"><code>{}</code></td>"
        "<td>{} % <span class=\"soft\">{}</span></td><td>{} % <span class=\"soft\">{}</span></td><td>{} %</td>"
        "<td>{:.2f} of {}</td><td><b>{:.2f}×</b></td>",
        shown.colour, escape_html(shown.run->name), escape_html(shown.data_name()),
        term_html(rule_name(score.policy), score.policy), percent(shown.quality(score)),
        shown.labelled ? term_html(name_of(shown.metric)) : "agreement", percent(shown.quality(shown.reference)),
        escape_html(trace.reference_precision()), percent(score.agreement), score.cost.average_layers,
        trace.info.layers.back(), score.cost.speedup_ratio);
    if (mflops) out += fmt::format("<td>{}</td>", cell(score.mflops, 1));
    if (times) out += fmt::format("<td>{}</td>", cell(score.predicted_ms, 3));
    out += fmt::format("<td class=\"text\">{}</td></tr>\n",
                       shown.run->certificate ? "<a href=\"#certificates\">yes</a>" : "none");
  }
  out += "</table></div>\n";
  if (std::any_of(all.begin(), all.end(), [](const ShownRun& s) { return !s.run->policy; })) {
    out += fmt::format(
        "<p class=\"soft\">Without a stored policy, the fastest setting that agrees with full depth on {:.0f} % of the "
        "texts is shown.</p>\n",
        100 * kFittingAgreement);
  }
  return out;
}

std::string sweep_table(const ShownRun& shown) {
  const bool mflops = shown.full.mflops.has_value(), times = shown.full.predicted_ms.has_value();
  std::string out =
      fmt::format("<details><summary>{}: {} settings</summary>\n<div class=\"scroll\"><table>\n<tr><th>policy</th>",
                  escape_html(shown.run->name), shown.rows.size());
  std::vector<std::string_view> names;
  for (const Score& metric : shown.chosen.metrics) names.push_back(name_of(metric.metric));
  names.insert(names.end(), {"agreement", "layers", "speed-up"});
  if (mflops) names.insert(names.end(), {"MFLOPs", "padded"});
  if (times) names.emplace_back("ms");
  for (const std::string_view name : names) out += fmt::format("<th>{}</th>", term_html(name));
  out += "</tr>\n";
  std::string rule;  // explained where it comes first
  for (const SweepRow& row : shown.rows) {
    const PolicyScore& score = row.score;
    const bool first = rule_name(score.policy) != rule;
    rule = rule_name(score.policy);
    out += fmt::format("<tr{}><td>{}</td>", row.on_front ? " class=\"front\"" : "",
                       first ? term_html(rule, score.policy) : escape_html(score.policy));
    for (const Score& metric : score.metrics) out += fmt::format("<td>{}</td>", percent(metric.value));
    out += fmt::format("<td>{}</td><td>{:.2f}</td><td>{:.2f}</td>", percent(score.agreement), score.cost.average_layers,
                       score.cost.speedup_ratio);
    if (mflops) out += fmt::format("<td>{}</td><td>{}</td>", cell(score.mflops, 1), cell(score.mflops_padded, 1));
    if (times) out += fmt::format("<td>{}</td>", cell(score.predicted_ms, 3));
    out += "</tr>\n";
  }
  return out + "</table></div></details>\n";
}

// Of each class: precision, recall, F1 and support.
std::string class_table(const ClassReport& report, const std::vector<std::string>& labels) {
  std::string out = "<div class=\"scroll\"><table>\n<tr><th>class</th>";
  for (const char* name : {"precision", "recall", "f1", "texts"}) out += fmt::format("<th>{}</th>", term_html(name));
  out += "</tr>\n";
  for (size_t i = 0; i < labels.size(); ++i) {
    const ClassFigures& figures = report.classes[i];
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", escape_html(labels[i]),
                       percent(figures.precision), percent(figures.recall), percent(figures.f1), figures.support);
  }
  return out + "</table></div>\n";
}

// Who is taken for whom: a matrix where it fits the page, else every pair that occurs, the most frequent first.
std::string confusion_table(const ClassReport& report, const std::vector<std::string>& labels) {
  constexpr size_t kMatrix = 16;
  if (report.confusion.empty()) return {};  // of multi_label, none is taken for another
  std::string out = "<div class=\"scroll\"><table class=\"confusion\">\n";
  if (labels.size() > kMatrix) {
    out +=
        "<caption>Mistakes</caption>\n<tr><th>label</th><th class=\"text\">answered "
        "as</th><th>texts</th><th>of</th></tr>\n";
    for (const ConfusedPair& pair : report.worst(labels.size() * labels.size())) {
      out += fmt::format("<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td></tr>\n",
                         escape_html(labels[pair.gold]), escape_html(labels[pair.answer]), pair.rows,
                         report.classes[pair.gold].support);
    }
    return out + "</table></div>\n";
  }
  out += "<caption>Labels (rows) and answers (columns)</caption>\n<tr><th></th>";
  for (const std::string& label : labels) out += fmt::format("<th>{}</th>", escape_html(label));
  out += "</tr>\n";
  for (size_t gold = 0; gold < labels.size(); ++gold) {
    out += fmt::format("<tr><td>{}</td>", escape_html(labels[gold]));
    for (size_t answer = 0; answer < labels.size(); ++answer) {
      const int64_t rows = report.at(gold, answer);
      const char* kind = rows == 0 ? " class=\"none\"" : gold == answer ? " class=\"right\"" : " class=\"wrong\"";
      out += fmt::format("<td{}>{}</td>", kind, rows);
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string class_part(const ShownRun& shown, bool open) {
  const std::vector<std::string>& labels = shown.run->trace->info.labels;
  const ClassReport& report = *shown.classes;
  return fmt::format(
      "<details{}><summary>{}, <code>{}</code>: {} {} %, {} {} %, {} {} %</summary>\n<div class=\"{}\">{}{}</div>"
      "</details>\n",
      open ? " open" : "", escape_html(shown.run->name), escape_html(shown.chosen.policy), term_html("macro f1"),
      percent(report.macro_f1), term_html("micro f1"), percent(report.micro_f1), term_html("weighted f1"),
      percent(report.weighted_f1), labels.size() > 6 ? "below" : "beside", class_table(report, labels),
      confusion_table(report, labels));
}

// The certificate in words and as stored.
std::string certificate_part(const ShownRun& shown) {
  const Certificate& c = *shown.run->certificate;
  return fmt::format(
      "<p><b>{}</b>: <code>{}</code>: {}; tested by {} on {} texts.</p>\n"
      "<details><summary>as stored</summary><pre>{}</pre></details>\n",
      escape_html(shown.run->name), escape_html(shown.chosen.policy), escape_html(shown.run->promise),
      name_of(c.method), c.rows, escape_html(json_text(certificate_json(c))));
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

std::string example_tables(const ShownRun& shown, bool open) {
  const ExampleSets sets = pick_examples(*shown.run->trace, shown.departures, shown.run->text);
  std::string tables;
  const auto table = [&](const char* caption, const std::vector<ExampleRow>& rows) {
    if (rows.empty()) return;
    tables += fmt::format(
        "<div class=\"scroll\"><table><caption>{}</caption>\n<tr><th class=\"text\">text</th><th>exit layer</th>"
        "<th>answer</th><th>full depth</th><th>gold</th></tr>\n{}</table></div>\n",
        caption, example_rows(rows));
  };
  table("Earliest exits", sets.early);
  table("Latest exits", sets.late);
  table("Exits that disagree with full depth", sets.wrong);
  if (tables.empty()) return {};
  return fmt::format("<details{}><summary>{}, <code>{}</code></summary>\n<div class=\"{}\">{}</div></details>\n",
                     open ? " open" : "", escape_html(shown.run->name), escape_html(shown.chosen.policy),
                     shown.run->text ? "below" : "beside", tables);  // texts need the width of the page
}

template <class AnyChart>
std::string figures(const std::vector<AnyChart>& charts) {
  std::string out;
  for (const AnyChart& chart : charts) out += "<figure>" + draw(chart) + "</figure>\n";
  return out;
}

bool has_published(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const ChartSeries& series) { return series.faint; });
}

std::string body_of(const std::vector<ShownRun>& all, const std::vector<Chart>& speed, const ReportOptions& options) {
  std::string out = "<p class=\"soft\">Quality and cost of early exits, measured from one pass over the data.</p>\n";
  out += summary_table(all);
  out += "<h2>Quality against speed-up</h2>\n" + figures(speed);
  if (std::any_of(speed.begin(), speed.end(), has_published)) {
    out +=
        "<p class=\"soft\">Hollow marks are published figures for other backbones and splits, their speed-up converted "
        "to one definition.</p>\n";
  }
  out += "<p class=\"soft\">Settings with a much larger loss are listed in the tables below.</p>\n";
  out += "<h2>Quality at each exit</h2>\n" + figures(quality_per_exit(all, options.published));
  out += "<h2>Exit distribution</h2>\n" + figures(exit_shares(all));
  if (const std::vector<BarChart> errors = calibration_errors(all); !errors.empty()) {
    out += fmt::format("<h2>Calibration</h2>\n<p class=\"soft\">Expected {} at each exit.</p>\n{}",
                       term_html("calibration error"), figures(errors));
  }
  std::string certificates, settings, examples, per_class;
  for (const ShownRun& shown : all) {
    if (shown.classes) per_class += class_part(shown, &shown == &all.front() && shown.classes->classes.size() <= 16);
    if (shown.run->certificate) certificates += certificate_part(shown);
    settings += sweep_table(shown);
    examples += example_tables(shown, &shown == &all.front());
  }
  if (!per_class.empty()) out += "<h2>Classes</h2>\n" + per_class;
  if (!certificates.empty()) out += "<h2 id=\"certificates\">Certificates</h2>\n" + certificates;
  out += "<h2>Settings</h2>\n<p class=\"soft\">● Pareto-optimal among the settings of the run.</p>\n" + settings;
  if (!examples.empty()) out += "<h2>Examples</h2>\n" + examples;
  out += "<h2>Environment</h2>\n<div class=\"scroll\"><table>\n";
  for (const auto& [name, value] : options.environment)
    out += fmt::format("<tr><td>{}</td><td class=\"text\">{}</td></tr>\n", escape_html(name), escape_html(value));
  return out + "</table></div>\n";
}

OrderedJson run_json(const ShownRun& shown) {
  OrderedJson run;
  run["name"] = shown.run->name;
  run["task"] = shown.run->trace->info.task;
  run["data"] = shown.data_name();
  run["rows"] = shown.run->trace->rows;
  run["policy"] = score_json(shown.chosen);
  run["reference"]["name"] = shown.run->trace->reference_name();
  for (const Score& one : shown.reference.metrics) run["reference"][std::string(name_of(one.metric))] = one.value;
  run["each_exit"] = exit_scores_json(shown.exits);
  run["sweep"] = sweep_json(shown.rows);
  if (shown.classes) run.update(classes_json(*shown.classes, shown.run->trace->info.labels));
  run["certificate"] = shown.run->certificate ? certificate_json(*shown.run->certificate) : OrderedJson(nullptr);
  return run;
}

// One table for all runs. If their metrics differ, a run has its own header.
std::string all_csv(const std::vector<ShownRun>& all) {
  std::string out, header;
  for (const ShownRun& shown : all) {
    const std::string csv = sweep_csv(shown.rows);
    const size_t first = csv.find('\n') + 1;
    if (csv.substr(0, first) != header) {
      header = csv.substr(0, first);
      out += (out.empty() ? "run," : "\nrun,") + header;
    }
    for (size_t at = first; at < csv.size(); at = csv.find('\n', at) + 1)
      out += csv_field(shown.run->name) + "," + csv.substr(at, csv.find('\n', at) + 1 - at);
  }
  return out;
}

// The SHA-256 of a text in base64, as a content security policy wants it.
std::string sha256_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : sha256_hex(text)) {  // four bits each
    bits = (bits << 4) | static_cast<uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    for (count += 4; count >= 6; count -= 6) out += kDigits[(bits >> (count - 6)) & 63U];
  }
  out += kDigits[(bits << (6 - count)) & 63U];  // 256 bits: four are left
  return out + "=";
}

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  // The one script that may run: this one, as it stands between its tags.
  const std::string script = fmt::format("\n{}", report_file("report.js"));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'sha256-{4}'; img-src data:\">\n"
      "<title>{0}</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{2}</main>\n<script>{3}</"
      "script>\n</body>\n</html>\n",
      escape_html(title), report_file("report.css"), body, script, sha256_base64(script));
}

ExampleSets pick_examples(const ExitTrace& trace, const Departures& departures,
                          const std::function<std::string(int64_t)>& text, size_t most) {
  const auto row_of = [&](size_t row) {
    const int exit = departures.exit[row];
    const std::string known = text ? text(trace.index[row]) : std::string{};
    ExampleRow out{.text = known.empty() ? fmt::format("row {}", trace.index[row]) : shortened(known),
                   .layer = trace.info.layers[static_cast<size_t>(exit)],
                   .answer = answer_text(trace.info, trace.at(row, exit), kAnswerStyle),
                   .full_depth = answer_text(trace.info, trace.full_depth(row), kAnswerStyle),
                   .gold = shown_gold(trace, row),
                   .right = std::nullopt};
    if (!out.gold.empty() && trace.info.problem != Problem::regression) out.right = out.answer == out.gold;
    return out;
  };
  const auto entropy_at_exit = [&](size_t row) {
    return compute_evidence(trace.exit_logits(trace.at(row, departures.exit[row]))).entropy;
  };
  std::vector<size_t> order(trace.rows);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (departures.exit[a] != departures.exit[b]) return departures.exit[a] < departures.exit[b];
    const float left = entropy_at_exit(a), right = entropy_at_exit(b);
    return left != right ? left < right : a < b;
  });
  ExampleSets sets;
  for (size_t i = 0; i < order.size() && sets.early.size() < most; ++i) sets.early.push_back(row_of(order[i]));
  for (size_t i = order.size(); i-- > 0 && sets.late.size() < most;) sets.late.push_back(row_of(order[i]));
  // First those that full depth answers correctly: the cost of exiting early.
  for (const bool cost : {true, false}) {
    for (size_t i = 0; i < order.size() && sets.wrong.size() < most && trace.info.problem != Problem::regression; ++i) {
      ExampleRow row = row_of(order[i]);
      const bool costs = !row.gold.empty() && row.full_depth == row.gold;
      if (row.answer != row.full_depth && costs == cost) sets.wrong.push_back(std::move(row));
    }
  }
  return sets;
}

Report make_report(const std::vector<ReportRun>& runs, const ReportOptions& options) {
  check(!runs.empty(), "a report has at least one run");
  std::vector<ShownRun> all;
  for (const ReportRun& run : runs) all.push_back(shown_run(run, static_cast<int>(all.size()), options.published));
  const std::vector<Chart> speed = quality_against_speed(all, options.published);
  Report report{.html = page(options.title, body_of(all, speed, options)),
                .csv = all_csv(all),
                .json = {},
                .vega_lite = vega_lite_of(speed)};
  report.json["format"] = "exeunt.report/1";
  report.json["runs"] = OrderedJson::array();
  for (const ShownRun& shown : all) report.json["runs"].push_back(run_json(shown));
  report.json["environment"] = OrderedJson::object();
  for (const auto& [name, value] : options.environment) report.json["environment"][name] = value;
  return report;
}

namespace fs = std::filesystem;
namespace {

// Texts by row, for the examples; nothing where no data are named.
TextOf texts_of(const ReportPlan& plan) {
  if (plan.measure.data.path.empty()) return {};
  auto texts = std::make_shared<std::map<int64_t, std::string>>();
  DataSource data = plan.measure.data;
  data.columns.label.clear();  // the texts alone
  for (const Example& example : load_data(data).examples) {
    (*texts)[example.index] = example.pair ? example.text + " ⟂ " + *example.pair : example.text;
  }
  return [texts](int64_t index) {
    const auto found = texts->find(index);
    return found == texts->end() ? std::string{} : found->second;
  };
}

std::string name_of_run(const std::string& path) {
  const fs::path clean = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  const std::string name = clean.filename().string();
  return name.ends_with(".safetensors") ? name.substr(0, name.size() - std::string_view(".safetensors").size()) : name;
}

// A policy file is of the run whose weights it names; a policy's text for the others.
std::string named_for(const ReportPlan& plan, const ExitTrace& trace) {
  std::string chosen;
  for (const std::string& policy : plan.policies) {
    const bool file = policy.ends_with(".json");
    if (file && read_policy_file(policy).weights == trace.info.weights) return policy;
    if (!file) chosen = policy;
  }
  return chosen;
}

// What the data of a run are called where they are of no known task.
std::string data_name_of(const ReportPlan& plan, const Measured& run, const std::string& name) {
  if (!plan.measure.data.path.empty()) return fs::path(plan.measure.data.path).filename().string();
  if (run.model && path_exists(run.model->folder() / kHeldOutFile)) return fmt::format("held-out rows of {}", name);
  return fmt::format("data of {}", name);
}

void refuse_unused_files(const ReportPlan& plan, const std::vector<Measured>& runs) {
  for (const std::string& policy : plan.policies) {
    if (!policy.ends_with(".json")) continue;
    const std::string weights = read_policy_file(policy).weights;
    const bool used = std::ranges::any_of(runs, [&](const Measured& r) { return r.trace.info.weights == weights; });
    if (!used) throw Error(Code::bad_file, fmt::format("{}: made for weights that no run has", policy));
  }
}

}  // namespace

Report report_runs(const ReportPlan& plan, const Observer& observer) {
  std::vector<Measured> measured;
  for (const std::string& name : plan.runs) {
    MeasureOptions one = plan.measure;
    one.model = name;
    measured.push_back(measure(one, observer));
    count_look(measured.back());
    if (const std::string text = learned_text(measured.back().trace); !text.empty())
      observer.notice(fmt::format("{}: {}", name, text));
  }
  refuse_unused_files(plan, measured);
  const TextOf texts = texts_of(plan);
  std::vector<ReportRun> runs;
  for (size_t i = 0; i < measured.size(); ++i) {
    const ExitTrace& trace = measured[i].trace;
    const std::string policy = named_for(plan, trace);
    std::optional<ResolvedPolicy> chosen;
    if (measured[i].model || !policy.empty()) chosen = resolve_measured(measured[i], {.policy = policy}, observer);
    std::vector<PolicySpec> settings = plan.settings(measured[i]);
    if (chosen && chosen->entry)
      for (PolicySpec& setting : settings) setting = chosen->entry->complete(setting);
    runs.push_back({.name = name_of_run(plan.runs[i]),
                    .trace = &trace,
                    .scoring = scorer_options(measured[i]),
                    .primary = primary_metric(trace),
                    .policy = chosen ? std::optional(chosen->policy) : std::nullopt,
                    .settings = std::move(settings),
                    .certificate = chosen ? chosen->certificate : std::nullopt,
                    .promise = chosen ? chosen->promise : "",
                    .text = texts,
                    .data = data_name_of(plan, measured[i], name_of_run(plan.runs[i]))});
  }
  ReportOptions options{.title = plan.title, .published = plan.published, .environment = {}};
  options.environment = {
      {"exeunt", std::string(version())}, {"made", now_rfc3339()}, {"processor", cpu_features().name}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const TraceInfo& info = runs[i].trace->info;
    const std::string data = info.task.empty() ? runs[i].data : fmt::format("task {}, split {}", info.task, info.split);
    options.environment.emplace_back(
        runs[i].name, fmt::format("{}, {} texts, precision {}, engine {}, weights {}; agreement is with {}", data,
                                  runs[i].trace->rows, info.precision, info.engine, info.weights.substr(0, 16),
                                  runs[i].trace->reference_name()));
  }
  Report report = make_report(runs, options);
  if (report.html.size() > kMaxReportBytes) {
    throw Error(Code::failure,
                fmt::format("the report would take {} bytes, want at most {}", report.html.size(), kMaxReportBytes),
                "pass fewer runs or settings");
  }
  return report;
}

}  // namespace exeunt
