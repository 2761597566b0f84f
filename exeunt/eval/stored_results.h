// SPDX-License-Identifier: Apache-2.0
// Finished trainings as benchmarks/grid keeps them, one JSON file each, and the tables that docs/reproducing.md has of
// them. The page itself is written by benchmarks/reproducing.py; a test holds the two to each other.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/eval/reproduction.h"

namespace exeunt {

struct StoredRun {
  struct Exit {
    int layer = 0;
    std::map<std::string, double> scores;  // by metric; those that are numbers
  };
  std::string task, recipe;
  int64_t seed = 0, steps = 0;
  int layers = 0;                     // of a model cut short; 0 = whole
  std::vector<Exit> exits, held_out;  // on dev; on rows kept from training
};

struct StoredCurve {
  struct Point {
    std::string policy;
    double score = 0, layers = 0;  // in percent; on average
  };
  std::string task, recipe, split;
  std::vector<Point> points;
};

struct StoredResults {
  std::vector<StoredRun> runs;
  std::vector<StoredCurve> curves;
};

// `folder` holds grid/*.json and curves.json. Throws Error (bad_file) for a file without what the tables need.
[[nodiscard]] StoredResults read_results(const std::filesystem::path& folder);

struct ResultTable {
  std::string title = {}, remark = {};
  std::vector<std::string> header = {};
  std::vector<std::vector<std::string>> rows = {};
};

// A threshold chosen on held-out rows, every exit, policies, models cut short: in percent, means over the seeds.
[[nodiscard]] std::vector<ResultTable> result_tables(const StoredResults& results);
[[nodiscard]] std::string markdown(const ResultTable& table);

// The paper's recipe on this task, means over the seeds, for compare(). Throws Error (usage) where there is none.
[[nodiscard]] Reached reached_by(const StoredResults& results, const Paper& paper, const std::string& task);

}  // namespace exeunt
