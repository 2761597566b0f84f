// SPDX-License-Identifier: Apache-2.0
// Which exit policy to use, and of which run: every family of rules is tried on one part of the rows, which selects the
// winner; its figures are measured on other rows (recommend.cc). Models become runs, and the policy gets into
// policy.json, in recommend_policy.cc; the recommendation becomes words, a table and JSON in recommend_text.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/eval/measure.h"
#include "exeunt/eval/scores.h"
#include "lab/choose/uncertainty.h"

namespace exeunt {

// The target: one of `speedup` and `max_drop`.
struct Goal {
  std::optional<double> speedup = {};   // full depth over early exit, above 1: keep as much quality as possible
  std::optional<double> max_drop = {};  // largest loss against full depth: be as fast as possible
  double confidence = 0.95;             // of the certificate for a drop
  std::optional<RiskLoss> loss = {};    // default: disagreement, or abs_diff for regression
  bool timed = false;                   // speed in predicted milliseconds, not in layers
  bool certify = true;                  // keep rows for a certificate, if there are enough
};

struct RunOnTrial {
  std::string name;
  const ExitTrace* trace = nullptr;  // outlives the call
  ScorerOptions scoring = {};
  Metric primary = Metric::accuracy;
  ValueRange range = {};  // of regression labels
};

// One policy of one run.
struct Alternative {
  size_t run = 0;
  std::string family;  // "full" and "layer", too
  PolicySpec policy;   // complete with exits and temperatures

  // On the selection rows.
  bool meets = false;  // the goal
  double chosen_quality = 0, chosen_agreement = 1, chosen_speedup = 1, chosen_loss = 0;

  // On the report rows.
  bool meets_fresh = false;  // the goal, there
  double missed_by = 0;      // by so much if not: of the speed-up, or of the loss
  PolicyScore score = {};
  double speedup = 1;                           // against full depth of the slowest run, counted as the goal counts
  double quality = 0;                           // the primary metric, or agreement with full depth without gold
  Bounds quality_bounds = {};                   // 95 %
  Difference lost = {};                         // the same run's quality at full depth, less this one's
  double loss_mean = 0;                         // the goal's loss
  LossInterval loss_bounds = {};                // 95 %
  std::optional<Calibration> calibration = {};  // of the one to use, if there are enough rows for a certificate
};

// What the next larger budget would gain, if nothing faster than full depth stays within the requested one.
struct NearestDrop {
  double max_drop = 0, speedup = 1;  // by the selection rows
};

struct Recommendation {
  std::vector<Alternative> options;  // the first is the one to use; then by their result on the selection rows
  std::vector<Alternative> full;     // every run at full depth
  bool met = false;                  // on the selection rows
  bool met_fresh = false;            // on the report rows, too
  bool certified = false;            // a drop that the rows suffice to certify
  std::string uncertified = {};      // why the rows did not suffice after all; usually empty
  bool labelled = false;
  RiskLoss loss = RiskLoss::disagreement;
  size_t families = 0;  // tried
  size_t choose_rows = 0, certify_rows = 0, report_rows = 0;
  int64_t rows_for_certificate = 0;         // the minimum total; 0 without a maximum drop
  std::optional<NearestDrop> nearest = {};  // of a drop that is not met
  double fastest = 1;                       // any policy of any run, by the selection rows
  [[nodiscard]] const Alternative& best() const { return options.front(); }
};

// The fewest rows: one half selects, the other reports.
inline constexpr size_t kFewestRows = 20;

// Called before the certificate of a run is tested: counts it among the tries on its certify rows, in plan.tries.
using CountTry = std::function<void(const CalibrationData& data, CalibrationPlan& plan)>;

// Rows are drawn into parts by `seed`: those of split_for_calibration if a certificate is possible, else two halves.
// The selection rows alone decide what is to be used; that one is then certified. Several runs must have been measured
// on the same labelled rows. Throws Error (usage, bad_file, failure).
[[nodiscard]] Recommendation recommend(std::span<const RunOnTrial> runs, const Goal& goal, uint64_t seed,
                                       const CountTry& count_try = {});

// What policy.json keeps of an alternative: its certified entry, or the policy alone. `layers` are the run's exits.
[[nodiscard]] PolicyEntry policy_entry(const Alternative& alternative, const std::vector<int>& layers);

struct RecommendOptions {
  std::vector<std::string> runs = {};  // models, folders of trainings, trace files
  MeasureOptions measure = {};         // how each of them is measured
  Goal goal = {};
  uint64_t seed = 42;
  bool apply = false;              // the policy will be written
  bool replace_certified = false;  // even without a certificate over one that has it
  std::string out = {};            // where; empty = the winner's own policy.json
};

// One run, and how it was measured.
struct Contender {
  MeasureOptions options = {};
  Measured measured = {};
};

struct Recommended {
  std::deque<Contender> contenders = {};  // stay in their places: `runs` point to them
  std::vector<RunOnTrial> runs = {};
  Recommendation what = {};

  [[nodiscard]] const Contender& winner() const { return contenders[what.best().run]; }
};

// Throws Error before any model runs if the policy could not be written.
[[nodiscard]] Recommended recommend_policy(const RecommendOptions& options, const Observer& observer);

// Writes the recommended policy; returns where. Throws Error: failure if the goal is not met, usage if a certified
// policy would be replaced by one without a certificate.
std::filesystem::path keep_recommended(const RecommendOptions& options, const Recommended& done,
                                       const Observer& observer);

// Who reads it: a user with trained runs, or one of a comparison of trainings, which is not advised to compare them.
enum class Asker { recommend, train };

struct RecommendationText {
  std::string verdict;                         // what to use, and what that gives
  std::vector<std::string> header;             // of the table
  std::vector<std::vector<std::string>> rows;  // the first is the one to use
  std::vector<std::string> notes;              // why, from which rows, and what would help
};
[[nodiscard]] RecommendationText explained(const Recommendation& recommendation, std::span<const RunOnTrial> runs,
                                           const Goal& goal, Asker asker = Asker::recommend);

// Keys of lab/docs/choosing.md.
[[nodiscard]] OrderedJson recommendation_json(const Recommendation& recommendation, std::span<const RunOnTrial> runs,
                                              const Goal& goal);

// The layers whose exits a policy evaluates, comma-separated, if it is a subset; empty = all.
[[nodiscard]] std::string chosen_exits(const PolicySpec& policy, const std::vector<int>& layers);

// The certified policy at `path` that an entry made from such a trace would replace, and its promise; empty = none.
[[nodiscard]] std::string promise_at(const std::filesystem::path& path, const TraceInfo& info);

}  // namespace exeunt
