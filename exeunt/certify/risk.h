// SPDX-License-Identifier: Apache-2.0
// Tests whether a mean loss stays below a budget, from losses on a sample.
// A p-value here bounds, for any distribution of losses in [0, 1], the chance of a sample this good while the true
// mean exceeds `max_drop`. Budgets are strictly between 0 and 1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "exeunt/policy/certificate.h"

namespace exeunt {

// Losses of 0 and 1: the exact binomial tail.
[[nodiscard]] double binomial_p_value(int64_t losses, int64_t rows, double max_drop);
// The largest mean not refuted at level delta (one-sided Clopper-Pearson).
[[nodiscard]] double binomial_upper_bound(int64_t losses, int64_t rows, double delta);

// Losses anywhere in [0, 1], from their mean alone: the smaller of Hoeffding's tight and Bentkus's tail bound.
[[nodiscard]] double hoeffding_bentkus_p_value(double mean, int64_t rows, double max_drop);

// Losses anywhere in [0, 1], from all of them in the order they came: the betting bound of Waudby-Smith and Ramdas,
// the narrowest where losses vary little. `delta` sizes the bets; the p-value holds for any.
[[nodiscard]] double wsr_p_value(std::span<const double> losses, double max_drop, double delta);
[[nodiscard]] double wsr_upper_bound(std::span<const double> losses, double delta);

// The least number of rows that can certify `max_drop` at `delta` where `losses` of them are lost: 299 for 1 % at 5 %.
[[nodiscard]] int64_t rows_needed(double max_drop, double delta, int64_t losses = 0);
// The most losses among `rows` that still certify; -1: not even zero would.
[[nodiscard]] int64_t losses_allowed(int64_t rows, double max_drop, double delta);

// The share of delta for the kth use (from 1) of the same rows to certify something: nine tenths for the first, a tenth
// for all others, so that whoever tries again and keeps the best result stays within delta.
[[nodiscard]] double share_of_try(int k);

// Fixed-sequence testing: settings 0, 1, … go from safest to boldest, and the answer is the last one before the first
// whose p-value exceeds `delta`. No multiplicity correction is needed; nothing if the very first fails.
[[nodiscard]] std::optional<size_t> fixed_sequence(size_t settings, double delta,
                                                   const std::function<double(size_t)>& p_value);

// Conformal risk control: the boldest setting whose expected loss on a new row is at most `max_drop`. Needs losses that
// grow with boldness, row by row; each row's loss is therefore taken as its largest so far, which bounds the real one.
// `losses(s)` gives the losses of setting s on every row, at most `most`. This is a guarantee in expectation over
// samples, not one with a confidence.
[[nodiscard]] std::optional<size_t> conformal_choice(size_t settings, double max_drop, double most,
                                                     const std::function<std::span<const double>(size_t)>& losses);

}  // namespace exeunt
