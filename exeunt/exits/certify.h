// SPDX-License-Identifier: Apache-2.0
// One test of one budget: its p-value by the chosen method, how many rows it takes at least, and the walk through a
// sequence of settings from safest to boldest.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exeunt/exits/risk.h"

namespace exeunt {

struct RiskTest {
  RiskLoss loss = RiskLoss::disagreement;
  RiskMethod method = RiskMethod::ltt_binomial;
  double epsilon = 0.01, delta = 0.05;
};

struct SequenceResult {
  size_t setting = 0;  // the boldest that passes; 0, full depth, loses nothing and needs no test
  double losses = 0;
  double p_value = 0;
  double upper_bound = 0;  // on the mean loss
};

// Setting 0 is full depth. `losses(i)` gives the losses of setting i, row by row.
[[nodiscard]] SequenceResult certify_sequence(const RiskTest& test, size_t settings,
                                              const std::function<std::vector<double>(size_t)>& losses);

// The mean loss is at most this, at the level of the test; under crc the conformal mean.
[[nodiscard]] double upper_bound(const RiskTest& test, const std::vector<double>& losses);

// Would a sample of `rows` rows with losses like these pass?
[[nodiscard]] bool would_pass(const RiskTest& test, const std::vector<double>& losses, int64_t rows);

// The smallest number of rows that pass if none of them has a loss.
[[nodiscard]] int64_t rows_without_loss(const RiskTest& test);
// The smallest budget that `rows` rows without a loss certify.
[[nodiscard]] double least_budget(const RiskTest& test, int64_t rows);

}  // namespace exeunt
