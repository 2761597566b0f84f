// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/sweep_score.h"

#include <map>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"

namespace exeunt {
namespace fs = std::filesystem;

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
  BaselineTable named;
  if (!baseline.empty()) named = read_baseline_table(baseline);
  const BaselineTable* table = baseline.empty() ? shipped_baseline(swept.measured->model->spec()) : &named;
  if (table == nullptr) return out;
  out.source = table->source;
  const auto found = table->tasks.find(out.task);
  if (found != table->tasks.end()) {
    out.score = elue_score(points, found->second, beyond);
    if (const auto remark = table->remarks.find(out.task); remark != table->remarks.end())
      out.source += fmt::format(" ({})", remark->second);
  } else if (!baseline.empty()) {
    throw_bad_file(baseline, "no baseline for task '{}'", out.task);
  }
  return out;
}

std::optional<double> keep_elue_score(const fs::path& path, const std::string& task, double score) {
  constexpr std::string_view kScoresFormat = "exeunt.elue_scores/1";
  std::map<std::string, double> scores;
  if (path_exists(path)) {
    const Json stored = read_json(path);
    JsonObject object(stored, path.string());
    (void)object.choice("format", {std::string(kScoresFormat)});
    const Json& tasks = object.get("tasks");
    if (!tasks.is_object()) object.fail("tasks", glimpse(tasks), "an object by task");
    JsonObject by_task(tasks, path.string() + ": tasks", /*partial=*/true);
    for (const auto& [name, value] : tasks.items()) scores[name] = by_task.number(name);
    if (object.has("overall")) (void)object.number("overall");
    object.finish();
  }
  scores[task] = score;
  OrderedJson out{{"format", kScoresFormat}, {"tasks", scores}};
  const std::optional<double> overall = elue_overall(scores);
  if (overall) out["overall"] = *overall;
  write_atomically(path, json_text(out));
  return overall;
}

}  // namespace exeunt
