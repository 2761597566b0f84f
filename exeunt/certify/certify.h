// SPDX-License-Identifier: Apache-2.0
// One test of one budget: its p-value by the chosen method, how many rows it takes at least, and the walk through a
// sequence of settings from safest to boldest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "exeunt/certify/risk.h"

namespace exeunt {

struct RiskTest {
  RiskLoss loss = RiskLoss::disagreement;
  RiskMethod method = RiskMethod::ltt_binomial;
  double max_drop = 0.01, delta = 0.05;
};

// How much each row counts in a test over requests. `most` is a limit that is presumed for all texts to come: without
// one, a single text could decide the mean of all requests, and no sample could exclude that.
struct Weights {
  std::vector<double> of = {};  // [rows]; empty = every row once
  double most = 1;
};

// What is known of the rows beside their losses.
struct Sample {
  Weights weights = {};
  // The promise must hold in each of these sets of rows, too. Each is tested at the full delta: whoever claims all of
  // them errs only if one claim is wrong, and that one had to pass its own test (intersection-union).
  std::vector<std::vector<size_t>> groups = {};
};

struct SequenceResult {
  std::optional<size_t> setting = {};  // the boldest that passes; nothing if not even full depth does
  double p_value = 0;                  // the largest of all groups'; 0 under crc
};

// Setting 0 is full depth, which may lose against that of another precision. `losses(i)` gives the losses of setting i,
// row by row.
[[nodiscard]] SequenceResult certify_sequence(const RiskTest& test, size_t settings,
                                              const std::function<std::vector<double>(size_t)>& losses,
                                              const Sample& sample = {});

// Would a sample of `rows` rows with losses like these pass? `sample` is that of the losses.
[[nodiscard]] bool would_pass(const RiskTest& test, const std::vector<double>& losses, int64_t rows,
                              const Sample& sample = {});

// The smallest number of rows that pass if none of them has a loss.
[[nodiscard]] int64_t rows_without_loss(const RiskTest& test, const Weights& weights = {});
// The smallest budget that `rows` rows without a loss certify.
[[nodiscard]] double least_max_drop(const RiskTest& test, int64_t rows, const Weights& weights = {});

// A confidence interval for the mean of losses that chose nothing, valid for any number of rows: Clopper and Pearson's
// for losses of 0 and 1, a betting interval for others.
struct LossInterval {
  double low = 0, high = 1;
};
[[nodiscard]] LossInterval loss_interval(RiskLoss loss, const std::vector<double>& losses, double delta = 0.05);

}  // namespace exeunt
