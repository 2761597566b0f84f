// SPDX-License-Identifier: Apache-2.0
// ELUE's leaderboard of files of scores: the scores, and for each class of model sizes the best performance.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "exeunt/data/rows.h"
#include "lab/elue/elue.h"
#include "lab/report/chart.h"
#include "lab/report/report.h"
#include "lab/report/report_figures.h"

namespace exeunt {
namespace {

constexpr std::array<int, 4> kClasses{40, 55, 70, 110};  // million parameters, at most

struct Entry {
  ElueScores scores;
  double millions = 0;  // the largest of its models

  // Of a task; nothing where it has not run.
  [[nodiscard]] std::optional<double> of(const std::string& task, double ElueResult::*what) const {
    const auto found = scores.tasks.find(task);
    return found == scores.tasks.end() ? std::nullopt : std::optional(found->second.*what);
  }
  [[nodiscard]] std::optional<double> mean(double ElueResult::*what) const {
    double sum = 0;
    for (const std::string& task : elue_tasks()) {
      if (!of(task, what)) return std::nullopt;
      sum += *of(task, what);
    }
    return sum / static_cast<double>(elue_tasks().size());
  }
  [[nodiscard]] std::string size_class() const {
    for (const int most : kClasses)
      if (millions <= most) return fmt::format("{} M", most);
    return fmt::format("over {} M", kClasses.back());
  }
};

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "–";
}

// The best first, and those without all six tasks last.
std::string table(std::vector<Entry> entries, double ElueResult::*what) {
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return a.mean(what) > b.mean(what); });
  std::string out =
      "<div class=\"scroll\"><table>\n<tr><th class=\"text\">model</th><th class=\"text\">baseline</th>"
      "<th>parameters</th><th>class</th>";
  for (const std::string& task : elue_tasks()) out += fmt::format("<th>{}</th>", task);
  out += "<th>all six</th></tr>\n";
  for (const Entry& entry : entries) {
    out += fmt::format("<tr><td class=\"text\">{}</td><td class=\"text\">{}, {}</td><td>{:.2f} M</td><td>{}</td>",
                       escape_html(entry.scores.model), escape_html(entry.scores.baseline), entry.scores.extrapolate,
                       entry.millions, entry.size_class());
    for (const std::string& task : elue_tasks()) out += fmt::format("<td>{}</td>", number(entry.of(task, what)));
    out += fmt::format("<td><b>{}</b></td></tr>\n", number(entry.mean(what)));
  }
  return out + "</table></div>\n";
}

std::string leaderboard_csv(const std::vector<Entry>& entries) {
  std::string out = "model,baseline,extrapolate,parameters,class,task,score,performance\n";
  for (const Entry& entry : entries)
    for (const auto& [task, result] : entry.scores.tasks)
      out += fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(entry.scores.model), csv_field(entry.scores.baseline),
                         entry.scores.extrapolate, result.parameters, entry.size_class(), task, result.score,
                         result.performance);
  return out;
}

}  // namespace

Report leaderboard(const std::vector<std::string>& files, const std::string& title) {
  std::vector<Entry> entries;
  for (const std::string& file : files) {
    Entry entry{read_elue_scores(file)};
    for (const auto& [task, result] : entry.scores.tasks)
      entry.millions = std::max(entry.millions, static_cast<double>(result.parameters) / 1e6);
    entries.push_back(std::move(entry));
  }
  std::string body =
      "<p class=\"soft\">ELUE's score is the mean of performance minus that of truncated models of the same cost; "
      "scores against different baselines cannot be compared.</p>\n<h2>Scores</h2>\n" +
      table(entries, &ElueResult::score);
  for (const int most : kClasses) {
    std::vector<Entry> small;
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(small),
                 [&](const Entry& entry) { return entry.millions <= most; });
    if (small.empty()) continue;
    body += fmt::format("<h2>Best performance with at most {} M parameters</h2>\n{}", most,
                        table(std::move(small), &ElueResult::performance));
  }
  Report report{.html = page(title, body), .csv = leaderboard_csv(entries), .json = {}, .vega_lite = {}};
  report.json = {{"format", "exeunt.leaderboard/1"}, {"models", OrderedJson::array()}};
  for (const Entry& entry : entries) {
    OrderedJson row{{"model", entry.scores.model},
                    {"baseline", entry.scores.baseline},
                    {"extrapolate", entry.scores.extrapolate},
                    {"class", entry.size_class()},
                    {"tasks", OrderedJson::object()}};
    for (const auto& [task, result] : entry.scores.tasks) row["tasks"][task] = elue_result_json(result);
    if (const auto overall = entry.scores.overall()) row["overall"] = *overall;
    report.json["models"].push_back(std::move(row));
  }
  return report;
}

}  // namespace exeunt
