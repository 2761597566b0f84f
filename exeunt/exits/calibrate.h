// SPDX-License-Identifier: Apache-2.0
// From a trace and a budget to a certified policy: "lose at most 1 % against full depth, with confidence 95 %".
// Temperatures, family and order of settings are chosen on the fit part; the guarantee is tested on the certify part
// alone; the report part is used for neither and measures the result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/exits/policy_file.h"
#include "exeunt/exits/trace.h"

namespace exeunt {

struct CalibrationData {
  ExitTrace fit, certify, report;
};

struct SplitShares {
  double fit = 0.2, certify = 0.6;  // the rest reports
};

// Rows drawn at random by `seed` into three parts, at least one row each.
[[nodiscard]] CalibrationData split_for_calibration(const ExitTrace& trace, uint64_t seed, SplitShares shares = {});

struct CalibrationPlan {
  std::vector<double> budgets = {0.01};    // largest mean loss, increasing; the first becomes the default policy
  double delta = 0.05;                     // 1 - confidence, shared by all budgets
  std::optional<RiskLoss> loss = {};       // default: disagreement, or abs_diff for regression
  std::optional<RiskMethod> method = {};   // default: the exact binomial for disagreement, wsr for the others
  std::vector<std::string> families = {};  // rules to choose from; empty = those that suit the model
  std::vector<int> exits = {};             // layers; empty = all exits
  std::optional<std::pair<double, double>> range = {};  // of regression labels
  bool temperatures = true;
};

// The result for one budget.
struct BudgetOutcome {
  double epsilon = 0;
  PolicySpec policy;                         // complete with exits and temperatures; `full` where nothing bolder passes
  double losses = 0;                         // sum over the certify part
  double p_value = 1;                        // of the test that let it pass; 0 under crc
  double upper_bound = 1;                    // on its mean loss, at the level of the test; the conformal mean under crc
  double certify_cost = 1, report_cost = 1;  // cost fractions
  double report_risk = 0;                    // mean loss on the report part
};

struct FamilyTrial {
  std::string family;
  double cost_fraction = 1;  // expected after certification, mean over the budgets
};

struct Calibration {
  PolicyEntry entry;  // ready for policy.json but for tool and created
  std::vector<BudgetOutcome> outcomes;
  std::vector<FamilyTrial> trials;   // the first is the one chosen
  std::vector<PolicySpec> sequence;  // its settings in the order they are tested: full depth, then ever bolder
};

// Throws Error: usage for a plan that does not fit the model, failure if there are too few rows for the first budget;
// that error says how many would do and what else would help.
[[nodiscard]] Calibration calibrate(const CalibrationData& data, const CalibrationPlan& plan);

}  // namespace exeunt
