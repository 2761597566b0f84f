// SPDX-License-Identifier: Apache-2.0
// From a model and a budget to a certified policy in its policy.json, and how that policy did on rows that chose
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/certify_model.h"
#include "exeunt/eval/measure.h"

namespace exeunt {

struct CalibrateOptions {
  MeasureOptions run = {};
  // File of unlabelled texts, in addition to the data or instead of it: disagreement needs no labels.
  std::string unlabelled = {};
  CalibrationPlan plan = {};  // range and groups are filled in
  std::string group = {};     // label, length, or a column of the data: certified in each group, too
  // Of a regression's values, where the model has none; none: that of the fit part.
  ValueRange range = {};
  // multi_label: "fit" for the best on the fit part, or as parse_thresholds() takes them; empty = those it has.
  std::string thresholds = {};
  std::optional<bool> report = {};  // as shares_for() has it
  uint64_t seed = 42;
  std::string out = {};  // policy file; empty = the model's own
};

struct Calibrated : CertifiedChoice {
  std::filesystem::path out = {};
  // On the report part (the certify part if there is none): full depth, in fp32 where the model ran, then the policy of
  // every budget.
  std::vector<PolicyScore> scores = {};
  std::vector<float> logit_thresholds = {};  // multi_label: as the model has them now
};

// The groups of every row of the trace. A column is read from the data as if it were the label. Throws Error (usage)
// where the data has no such column.
[[nodiscard]] GroupPlan groups_of(const CalibrateOptions& options, const Measured& measured);

// Whether a range that the user names fits a model whose values have the range `known`, if there is one. Throws Error
// (usage).
void require_value_range(bool regression, const ValueRange& known, const ValueRange& named);

// A notice where full depth is no better, on the rows with a label, than the answer that is right most often.
void report_majority(const ExitTrace& trace, const Observer& observer);

// A notice where a class is so rare that all its answers could change within the promise.
void report_rare_answers(const PolicyEntry& entry, const std::vector<std::string>& labels, const Observer& observer);

// A model is certified against its answers in fp32 at full depth, in the precision of the options, else in the one that
// is expected to be fastest; that becomes its default (certify_choice() says what happens where it fails). A trace is
// certified in its own precision, against its reference if it has one. New thresholds are the model's before anything
// is certified, and are written if the certificate is. Throws Error, as measure() and calibrate() do; (resources) if
// somebody else calibrates the model.
[[nodiscard]] Calibrated calibrate_model(const CalibrateOptions& options, const Observer& observer);

// Tests the points of the certified entry at options.out (the model's policy.json) on the rows of the options, at the
// budgets, confidence, loss and unit of its certificate, and puts the outcome there as this engine's entry. The rows
// are split by the certificate's seed, so that on the same rows those that chose the policy do not certify it. Throws
// Error as calibrate_model() does; bad_file where there is no such entry.
[[nodiscard]] Calibrated transfer_policy(const CalibrateOptions& options, const Observer& observer);

}  // namespace exeunt
