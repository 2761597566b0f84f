// SPDX-License-Identifier: Apache-2.0
// An early-exit model against truncated models of the same kind: ELUE's score, and an area that does not depend on
// which points were selected.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/model/spec.h"
#include "lab/choose/sweep_model.h"

namespace exeunt {

// The mean cost of a text, and the score in percent.
struct CostPoint {
  double mflops = 0, performance = 0;
};

// Beyond the ends of the baseline: its last value, or the line through its last two points.
enum class Extrapolate { clamp, linear };

// One task of a baseline: points of rising cost, joined by straight lines.
using Baseline = std::vector<CostPoint>;
[[nodiscard]] double baseline_at(const Baseline& baseline, double mflops, Extrapolate beyond = Extrapolate::clamp);

struct ElueScore {
  double score = 0;  // mean over the points of performance minus baseline at the same cost; two decimals, half up
  double area = 0;   // the same over a fixed grid of costs, with the best point affordable at each
  int outside = 0;   // points that cost less or more than all of the baseline
};

// `points` in any order, at least one. Throws Error (usage) if there is none or a number is not finite.
[[nodiscard]] ElueScore elue_score(std::span<const CostPoint> points, const Baseline& baseline,
                                   Extrapolate beyond = Extrapolate::clamp);

// The mean over ELUE's six tasks, if all six are present.
[[nodiscard]] std::optional<double> elue_overall(const std::map<std::string, double>& score_by_task);

// { "format":"exeunt.elue_baseline/1", "source":"…", "shape":{"layers":12,"hidden":384,"heads":12,"inner":1536},
//   "tasks":{ "SST-2":[{"mflops":…,"performance":…}, …], … }, "remarks":{ "SNLI":"…" } }
struct BaselineShape {
  int layers = 0, hidden = 0, heads = 0, inner = 0;
};
struct BaselineTable {
  std::string source;
  std::optional<BaselineShape> shape = {};  // of the models it was measured with, not truncated
  std::map<std::string, Baseline> tasks = {};
  std::map<std::string, std::string> remarks = {};  // by task: what its models lack, for every score against them
};
[[nodiscard]] BaselineTable read_baseline_table(const std::filesystem::path& path);
[[nodiscard]] BaselineTable parse_baseline_table(const Json& json, const std::string& where);
// The built-in table for models of this shape, or null.
[[nodiscard]] const BaselineTable* shipped_baseline(const ModelSpec& spec);

// One task's result, as the leaderboard shows it.
struct ElueResult {
  double score = 0, performance = 0;  // of all points; of the best point
  int64_t parameters = 0;             // of the model with its exits
};

struct ElueOutcome {
  std::string task = {};
  std::optional<ElueScore> score = {};  // nothing without a baseline for the task
  std::string source = {};              // of the baseline, with its remark; empty = there is none for this shape
  std::string model = {}, baseline = {};
  std::string rows = {};  // "3 of 1101 rows of dev", where they are not all of the task's
  ElueResult result = {};
};

// ELUE's score of the rows against static models: those of the file `baseline`, or the shipped ones of the same shape
// if it is empty. Throws Error: usage for a task that is not ELUE's, whose splits are others, and for as many rows as
// GLUE's split of that name has.
[[nodiscard]] ElueOutcome elue_outcome(const Swept& swept, const std::string& baseline,
                                       Extrapolate beyond = Extrapolate::clamp);

// A file of several tasks' results, all of one kind of model, against one baseline (lab/docs/formats.md).
struct ElueScores {
  // "elasticbert on bert 12x384, 12 exits", "gte-small-static" or a file's source and hash, "clamp"
  std::string model, baseline, extrapolate;
  std::map<std::string, ElueResult> tasks = {};

  [[nodiscard]] std::optional<double> overall() const;
};
[[nodiscard]] const std::vector<std::string>& elue_tasks();
[[nodiscard]] OrderedJson elue_result_json(const ElueResult& result);
[[nodiscard]] ElueScores read_elue_scores(const std::filesystem::path& path);

// Puts a task's result into the file. Returns ELUE's overall score if all six are there. Throws Error: usage for a file
// of another model, baseline or extrapolation.
std::optional<double> keep_elue_score(const std::filesystem::path& path, const ElueOutcome& outcome,
                                      Extrapolate beyond);

// "SST-2" of "elue/SST-2".
[[nodiscard]] inline std::string plain_task(const ExitTrace& trace) {
  return trace.info.task.substr(trace.info.task.find('/') + 1);
}

}  // namespace exeunt
