// SPDX-License-Identifier: Apache-2.0
// From a finished classifier and texts without labels to a model folder with exits and a certified policy. The texts
// are split first: some are learned, others choose settings, others certify, and the rest measure the result.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/attach/attach.h"
#include "exeunt/attach/draw_texts.h"
#include "exeunt/attach/order_kept.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/certify_model.h"
#include "exeunt/eval/measure.h"
#include "exeunt/eval/scores.h"

namespace exeunt {

struct AttachJob {
  std::string model = {};
  // max_length (0: the training's, else the model's), threads and seed are for everything.
  DrawOptions texts = {.max_length = 0};
  std::string thresholds = {};            // multi_label: as parse_thresholds() takes them; empty = the model's
  std::vector<std::string> learned = {};  // files of texts that the model was trained on, read as `texts` are
  DataSource labelled = {};               // more texts, with labels, which only report; no path = none
  std::filesystem::path out = {};
  bool force = false;  // replace exits that the model has
  // In which the model runs and is certified; none: it runs in fp32, and the precision that is expected to answer
  // fastest is certified, as in calibrate_model().
  std::optional<Precision> precision = {};
  HeadSettings heads = {.rate = 0};             // rate 0: by what the model answers, see lab/notebooks/reproducing.md
  CalibrationPlan plan = {};                    // budgets, delta and range of values
  size_t memory = AttachOptions{}.memory;       // for texts, rows and trainers
  size_t exit_0_bytes = NgramSettings{}.bytes;  // of the table of an exit before the first layer; 0: no such exit
  // Called right before and after the folder is written, which must not be interrupted.
  std::function<void(bool writing)> writing = [](bool) {};
};

struct ExitReport {
  int layer = 0;
  double agreement = 0;  // share of texts with the last exit's label; values: mean difference from its value
  std::vector<Score> metrics = {};
};

struct BudgetReport {
  DropOutcome outcome = {};
  PolicyScore score = {};
  std::optional<OrderKept> order = {};
};

struct AttachParts {
  size_t learn = 0, fit = 0, certify = 0, report = 0;
};

struct Attached : CertifiedChoice {
  std::filesystem::path out = {};
  int64_t rows = 0, distinct = 0, blank = 0, truncated = 0;
  AttachParts parts = {};
  int max_length = 0, threads = 0;
  std::string engine = {};
  Problem problem = Problem::classification;
  std::pair<double, double> range = {};  // of values, where it is a regression
  std::string range_from = {};           // where that range is from, in words
  std::vector<ExitReport> exits = {};
  PolicyScore full = {};
  std::vector<BudgetReport> budgets = {};
  double seconds = 0;
};

// The parts of `texts` distinct texts, of which the model has learned `known` before, for a promise that takes at least
// `needed` rows to certify: known texts are learned again. Throws Error (failure) that says how many texts it takes if
// they are too few. Where texts are drawn in clusters, these are counted, and `unit` is what they are.
[[nodiscard]] AttachParts split_texts(size_t texts, size_t known, size_t needed, double max_drop, double confidence,
                                      int tries = 1, std::string_view unit = "texts");

// Throws Error and then leaves nothing behind.
[[nodiscard]] Attached attach_model(const AttachJob& job, const Observer& observer);

}  // namespace exeunt
