// SPDX-License-Identifier: Apache-2.0
// Finished trainings as benchmarks/grid keeps them, one JSON file each, with the policies that were replayed over their
// traces; and what is asked of them: scores in percent, means over seeds.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/model/spec.h"

namespace exeunt {

inline constexpr int kGridLayers = 12;  // of the models that benchmarks/grid trains

struct StoredRun {
  struct Exit {
    int layer = 0;
    std::map<std::string, double> scores;  // by metric; those that are numbers
  };
  std::string task, recipe;
  int64_t seed = 0, steps = 0;
  int layers = 0;                     // of a model cut short; 0 = whole
  std::vector<Exit> exits, held_out;  // on dev; on rows kept from training
  // Where the file says it, else empty or 0: what it was trained from ("gte-small"), with which kernel of attention
  // ("cudnn", "efficient"), the first stage's objective, LibTorch's version, rows trained on.
  std::string backbone, attention, objective, torch;
  int64_t train_rows = 0;
};

struct StoredCurve {
  struct Point {
    std::string policy;
    double score = 0, layers = 0;  // in percent; on average
  };
  std::string task, recipe, split;
  std::vector<Point> points;
};

// The settings of a paper's rule, replayed over the trace of one run.
struct StoredReplay {
  struct Point {
    std::string policy;
    double layers = 0;                     // on average
    std::map<std::string, double> scores;  // by metric
  };
  std::string task, recipe;
  std::vector<Point> points;
};

struct StoredResults {
  std::filesystem::path folder;
  std::vector<StoredRun> runs;
  std::vector<StoredCurve> curves;
  std::vector<StoredReplay> replays;
};

// `folder` holds grid/*.json, curves.json and papers.json. Throws Error (bad_file) for a file without what the tables
// need.
[[nodiscard]] StoredResults read_results(const std::filesystem::path& folder);

// For other files of such a folder: the *.json of `folder / name` in order of name (none if there is no such folder),
// one run, the exits of a run, and a file that holds a list. `where` opens the error messages.
[[nodiscard]] std::vector<std::filesystem::path> result_files(const std::filesystem::path& folder);
[[nodiscard]] StoredRun read_run(const std::filesystem::path& path);
[[nodiscard]] std::vector<StoredRun::Exit> read_exits(const Json& list, const std::string& where);
[[nodiscard]] Json read_result(const std::filesystem::path& path);
[[nodiscard]] Json read_result_list(const std::filesystem::path& path, std::string_view of);

// The measures of a task whose mean is its score, in the order the tables name them.
[[nodiscard]] std::vector<std::string> measures_of(std::string_view task);
// In percent; nothing where the run has none of the measures (its loss was no number).
[[nodiscard]] std::optional<double> score_of(std::string_view task, const StoredRun::Exit& exit);
[[nodiscard]] std::optional<double> mean_of(const std::vector<double>& values);

// Whole models of a recipe on a task.
[[nodiscard]] std::vector<const StoredRun*> runs_of(const StoredResults& results, std::string_view task,
                                                    std::string_view recipe);
// Each policy's mean score and layers over the seeds, in the order of the first curve.
[[nodiscard]] std::vector<StoredCurve::Point> mean_curve(const StoredResults& results, std::string_view task,
                                                         std::string_view recipe, std::string_view split);

}  // namespace exeunt
