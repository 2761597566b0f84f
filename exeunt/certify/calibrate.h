// SPDX-License-Identifier: Apache-2.0
// From a trace and a budget to a certified policy: "lose at most 1 % against full depth, with confidence 95 %".
// Temperatures, family and order of settings are chosen on the fit part; the guarantee is tested on the certify part
// alone; the report part is used for neither and measures the result.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/risk.h"
#include "exeunt/certify/split.h"
#include "exeunt/policy/policy_file.h"

namespace exeunt {

// 0.05 for a confidence of 0.95, whose difference to 1 is another number in binary: equal plans must be equal tries.
[[nodiscard]] inline double delta_of(double confidence) noexcept {
  return std::round((1 - confidence) * 1e12) / 1e12;
}

struct CalibrationPlan {
  std::vector<double> max_drops = {0.01};  // largest mean loss, increasing; the first becomes the default policy
  double delta = 0.05;                     // 1 - confidence, shared by all budgets and tries
  std::optional<RiskLoss> loss = {};       // default: disagreement, or abs_diff for regression
  // default: the exact binomial for disagreement, the better of it and wsr for zero_one_drop, else wsr
  std::optional<RiskMethod> method = {};
  std::vector<std::string> families = {};  // rules to choose from; empty = those that suit the model
  std::vector<int> exits = {};             // layers; empty = all exits
  ValueRange range = {};                   // of regression labels
  bool temperatures = true;
  std::optional<CertifiedUnit> unit = {};  // default: certified_unit()
  GroupPlan group = {};                    // the promise must hold in each group, too
  std::string cluster_by = {};             // column of the rows' clusters; empty: the first text of pairs
  // An entry that was certified elsewhere: its points are tested as they are, with its exits and temperatures. Nothing
  // is chosen; families, exits and temperatures of the plan are not looked at.
  std::optional<PolicyEntry> transfer = {};
  // The reference is the model itself at full depth, which therefore loses nothing: it is the answer where nothing else
  // passes, even on rows that are too few for a test.
  bool or_full_depth = false;
  std::string family = {};  // model_family(); empty = not known
  std::string test = {};    // a digest of what makes the numbers that are tested; empty: of the numbers
  // Known uses of the certify rows to certify something, this one included, which gets its share of delta; 0 = not
  // counted: all of it.
  int tries = 0;
  int tries_elsewhere = 0;  // uses of these rows on other machines, as the user states
  int least_try = 1;        // that this use is, by a certificate on the same rows
  std::string ledger = {};  // Ledger::digest
  // Of the certify rows, those that earlier tries knew, too: whatever they were chosen by, they can only harm, because
  // they count where they lose alone. Needs counts_losses(). Empty: none, or the try pays for them with its delta.
  std::vector<bool> known = {};
  bool tries_known = true;  // false: they cannot be counted; it has the share of the first, and its certificate says 0
};

struct GroupOutcome {
  std::string name;
  int64_t rows = 0;  // of the certify part
  double losses = 0;
  int64_t report_rows = 0;
  double report = 0;           // mean loss
  LossInterval interval = {};  // of report, 95 %; of the clusters' means where rows have clusters
};

// The result for one budget. Of the mean loss, nothing below `max_drop` is certified: the setting was found by walking
// until a test failed, and a bound computed for where the walk ended would be too low.
struct DropOutcome {
  double max_drop = 0;
  PolicySpec policy;  // complete with exits and temperatures; `full` where nothing more aggressive passes
  int64_t rows = 0, report_rows = 0;  // that the loss is about, of the certify and the report part
  double losses = 0;                  // sum over the certify part
  double p_value = 1;                 // of the test that let it pass; 0 under crc
  double certify_cost = 1;            // cost fraction
  double certify = 0;                 // mean loss
  // On the report part; where it has no rows, those of the certify part, which chose the setting.
  double report_cost = 1;
  double report = 0;
  std::optional<LossInterval> interval = {};  // of report, 95 %; nothing without a report part
  FrequentTexts frequent = {};
  std::optional<GroupOutcome> others = {};  // RiskLoss::max_false
  std::vector<GroupOutcome> groups = {};
  std::vector<GroupOutcome> exits =
      {};  // by the layers where texts left; `interval` is of the certify part without another
};

struct FamilyTrial {
  std::string family = {};
  RiskMethod method = {};                 // that lets it run fewest layers
  double cost_fraction = 1;               // expected after certification, mean over the budgets
  std::vector<PolicySpec> expected = {};  // the setting for each budget
};

struct Calibration {
  PolicyEntry entry;  // ready for policy.json but for tool and created
  std::vector<DropOutcome> outcomes;
  std::vector<FamilyTrial> trials;   // the first is the one chosen
  std::vector<PolicySpec> sequence;  // its settings in the order they are tested: full depth, then ever more aggressive
};

// What a plan promises of these rows. They are requests, drawn as they come, but for those that training held out (it
// drew texts, each with all its rows) and for logits of other software, which are of a data set as a rule.
[[nodiscard]] CertifiedUnit certified_unit(const CalibrationPlan& plan, const ExitTrace& rows);

// Of the delta of a plan, before tries are counted, for one of its budgets: most of it for the first, which runs.
[[nodiscard]] double budget_share(const CalibrationPlan& plan, double max_drop);

inline constexpr size_t kRowsToReport = 1500;  // fewer bound nothing, and certify more layers away
// How the rows of a trace are divided for a plan, by their number alone. `report`: whether some are kept that measure
// the result; nothing: of kRowsToReport and more.
[[nodiscard]] SplitShares shares_for(const ExitTrace& trace, const CalibrationPlan& plan, std::optional<bool> report);

// The families that a plan tries, evaluated on the fit part alone, as if its losses were those of the `certify_rows` to
// come: the one expected to be cheapest first; infinite cost if not even full depth would pass.
[[nodiscard]] std::vector<FamilyTrial> try_families(const CalibrationData& data, int64_t certify_rows,
                                                    const CalibrationPlan& plan);

// Whether full depth passes the tests of all budgets: in another precision than the reference's it may lose, too.
[[nodiscard]] bool full_depth_passes(const CalibrationData& data, const CalibrationPlan& plan);

// Whether the exact binomial tests single rows: a row that loses nothing only helps, and may be left out.
[[nodiscard]] bool counts_losses(const CalibrationData& data, const CalibrationPlan& plan);

// Throws Error (failure) if the certify part is too small for the first budget even without a loss.
void require_enough_rows(const CalibrationData& data, const CalibrationPlan& plan);

// Throws Error: usage for a plan that does not fit the model, failure if there are too few rows for the first budget;
// that error gives the number needed and what else would help.
[[nodiscard]] Calibration calibrate(const CalibrationData& data, const CalibrationPlan& plan);

[[nodiscard]] OrderedJson outcome_json(const DropOutcome& outcome);
[[nodiscard]] OrderedJson trials_json(const std::vector<FamilyTrial>& trials);

}  // namespace exeunt
