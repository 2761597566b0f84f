// SPDX-License-Identifier: Apache-2.0
// Quality and cost of runs in one HTML file: no network, readable without scripts, at most 300 KB; and the same as CSV,
// JSON and a Vega-Lite specification.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/eval/measure.h"
#include "exeunt/eval/scores.h"
#include "exeunt/policy/policy_file.h"
#include "lab/choose/sweep_model.h"

namespace exeunt {

// A text of a data set, by its row in the source; empty if it is not known.
using TextOf = std::function<std::string(int64_t index)>;

struct ReportRun {
  std::string name;
  const ExitTrace* trace = nullptr;  // outlives the report
  ScorerOptions scoring = {};
  Metric primary = Metric::accuracy;
  std::optional<PolicySpec> policy = {};        // whose exits and examples are shown; nothing = see kFittingAgreement
  std::vector<PolicySpec> settings = {};        // the curve of quality against speed-up
  std::optional<Certificate> certificate = {};  // of `policy`
  std::string promise = {};                     // what it says (policy/promise.h)
  TextOf text = {};
  std::string data = {};  // what the data are called; empty = not known
};

// Without a policy: the fastest of the settings that agrees with full depth on at least this share of the texts.
inline constexpr double kFittingAgreement = 0.99;

struct ReportOptions {
  std::string title = "Exeunt report";
  bool published = true;  // overlay the papers' figures
  std::vector<std::pair<std::string, std::string>> environment = {};
};

struct Report {
  std::string html, csv;
  OrderedJson json, vega_lite;
};

// ELUE's leaderboard of files that `sweep --elue-scores` wrote: scores on the six tasks, and by classes of parameters
// the best performance. Throws Error.
[[nodiscard]] Report leaderboard(const std::vector<std::string>& files, const std::string& title);

inline constexpr size_t kMaxReportBytes = 300 * 1024;

// A few texts that show how a policy behaves: the first to exit, the last, and those it answers differently.
struct ExampleRow {
  std::string text;  // "row 17" if the texts are not available
  int layer = 0;
  std::string answer, full_depth, gold;  // labels, or regression values; gold empty if unknown
  std::optional<bool> right;             // nothing without gold, and for regression
};

struct ExampleSets {
  std::vector<ExampleRow> early, late, wrong;
};

// At most `most` of each kind; the most confident first among the early ones, and among the wrong ones those that full
// depth answers correctly.
[[nodiscard]] ExampleSets pick_examples(const ExitTrace& trace, const Departures& departures,
                                        const std::function<std::string(int64_t)>& text, size_t most = 8);

[[nodiscard]] Report make_report(const std::vector<ReportRun>& runs, const ReportOptions& options);

struct ReportPlan {
  std::vector<std::string> runs = {};      // models, folders of trainings, trace files
  std::vector<std::string> policies = {};  // policy files, each for the run of its weights; a policy for the others
  MeasureOptions measure{.fp32_answers = true};  // for runs that are models; its data also gives the texts of examples
  SettingsFor settings = {};
  std::string title = "Exeunt report";
  bool published = true;  // with the papers' published figures
};

// Throws Error: bad_file for a policy file that fits no run, failure if the page would be too large.
[[nodiscard]] Report report_runs(const ReportPlan& plan, const Observer& observer);

}  // namespace exeunt
