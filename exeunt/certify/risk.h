// SPDX-License-Identifier: Apache-2.0
// Tests whether a mean loss stays below a budget, from losses on a sample: the distributions (by Boost.Math), the
// p-values, one test of one budget by the chosen method, and the walk through settings from most conservative to most
// aggressive. A p-value here bounds, for any distribution of losses in [0, 1], the chance of a sample this good while
// the true mean exceeds `max_drop`. Budgets are strictly between 0 and 1.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/policy/certificate.h"

namespace exeunt {

// Answers lost, whatever was gained.
[[nodiscard]] double lost_sum(const std::vector<double>& losses);
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

// A number of rows near `rows` none of which is in vain: the least up to `most` at which one more loss is allowed than
// with `rows`, else the least at which as many are.
[[nodiscard]] int64_t critical_rows(int64_t rows, int64_t most, double max_drop, double delta);

// The share of delta for the kth use (from 1) of the same rows to certify something: nine tenths for the first, a tenth
// for all others, so that whoever tries again and keeps the best result stays within delta.
[[nodiscard]] double share_of_try(int k);

// Fixed-sequence testing: settings 0, 1, … go from most conservative to most aggressive, and the answer is the last one
// before the first whose p-value exceeds `delta`. No multiplicity correction is needed; nothing if the very first
// fails.
[[nodiscard]] std::optional<size_t> fixed_sequence(size_t settings, double delta,
                                                   const std::function<double(size_t)>& p_value);

// Conformal risk control: the most aggressive setting whose expected loss on a new row is at most `max_drop`. Needs
// losses that grow with aggressiveness, row by row; each row's loss is therefore taken as its largest so far, which
// bounds the real one. `losses(s)` gives the losses of setting s on every row, at most `most`. This is a guarantee in
// expectation over samples, not one with a confidence.
[[nodiscard]] std::optional<size_t> conformal_choice(size_t settings, double max_drop, double most,
                                                     const std::function<std::span<const double>(size_t)>& losses);

// P(X <= k) of a binomial X of n trials with success probability p: how likely so few losses are.
[[nodiscard]] double binomial_cdf(int64_t k, int64_t n, double p);

// The same if p is drawn from a beta distribution with these parameters.
[[nodiscard]] double beta_binomial_cdf(int64_t k, int64_t n, double alpha, double beta);

// P(X > x) of a chi-square variable.
[[nodiscard]] double chi_square_tail(double x, int degrees);

// ltt_binomial counts lost answers alone. For zero_one_drop, where others are gained, that bounds the mean loss, too.
struct RiskTest {
  RiskLoss loss = RiskLoss::disagreement;
  RiskMethod method = RiskMethod::ltt_binomial;
  double max_drop = 0.01, delta = 0.05;
};

// How many rows each draw has. `most` is a limit that is presumed for all draws to come: without one, a single cluster
// could decide the mean of all rows, and no sample could exclude that.
struct Weights {
  std::vector<double> of = {};  // [draws]; empty = one each
  double most = 1;
};

// Rows in which a mean loss is promised.
struct RowSet {
  std::vector<size_t> rows;
  std::optional<double> max_drop = {};  // none: that of the test
};

// What is known of the rows beside their losses.
struct Sample {
  std::vector<size_t> cluster = {};  // [rows] equal for rows that are drawn together, below their number; empty: none
  double most = 1;                   // rows of a cluster
  bool whole = true;                 // the mean over all rows is promised
  std::vector<bool> known = {};  // [rows] of these, those that lose nothing do not count (CalibrationPlan); empty: none
  // The promise must hold in each of these sets, too. Each is tested at the full delta: whoever claims all of
  // them errs only if one claim is wrong, and that one had to pass its own test (intersection-union).
  std::vector<RowSet> sets = {};
  // Sets that depend on the setting: every one of them is tested as it is, with the others.
  std::function<std::vector<RowSet>(size_t setting)> sets_of = {};
};

// Independent draws: rows, or clusters of rows with their mean loss.
struct Draws {
  std::vector<double> losses = {};
  Weights weights = {};
};
// Those of the rows with these losses, or of some of the rows.
[[nodiscard]] Draws draws_of(const std::vector<double>& losses, const Sample& sample,
                             const std::vector<size_t>* rows = nullptr);

struct SequenceResult {
  std::optional<size_t> setting = {};  // the most aggressive that passes; nothing if not even full depth does
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

// The test of a set alone.
[[nodiscard]] RiskTest test_of(RiskTest test, const RowSet& set);
// The smallest number of draws that pass if none of them has a loss.
[[nodiscard]] int64_t rows_without_loss(const RiskTest& test, const Weights& weights = {});
// The smallest budget that `rows` draws without a loss certify.
[[nodiscard]] double least_max_drop(const RiskTest& test, int64_t rows, const Weights& weights = {});

// A confidence interval for the mean of losses that chose nothing, valid for any number of rows: Clopper and Pearson's
// for losses of 0 and 1, a betting interval for others (means of clusters among them).
struct LossInterval {
  double low = 0, high = 1;
};
[[nodiscard]] LossInterval loss_interval(const RiskLoss& loss, const std::vector<double>& losses, double delta = 0.05);

// Statistics of a stream of losses in [0, 1] that hold at every moment, however often one looks. They rest on Ville's
// inequality: a nonnegative process that is not expected to grow exceeds 1 / alpha at any time with probability at most
// alpha.

// Raises an alarm when losses exceed what was promised. It bets against "the mean is at most max_drop" from every
// moment on, at once: the bets that began at time t get a share w(t) of the level, and the shares of all times add up
// to 1. So a good past, however long, does not hide a change, and the chance of ever raising a false alarm is at
// most `alpha`, without end.
class RiskAlarm {
 public:
  // A bet grows fastest when the true mean is this many times max_drop.
  static constexpr std::array<double, 5> kMultiples = {1.25, 1.5, 2, 3, 5};
  // All that it knows of the losses so far.
  struct Memory {
    int64_t losses = 0;
    std::array<double, kMultiples.size()> wealth{};  // of each bet
    bool raised = false;
  };

  RiskAlarm(double max_drop, double alpha);  // max_drop strictly between 0 and 1

  void record(double loss);  // in [0, 1]

  // True from the first moment at which the evidence reached 1 / alpha.
  [[nodiscard]] bool raised() const noexcept { return memory_.raised; }
  [[nodiscard]] double evidence() const noexcept;  // an e-value: at most 1 in expectation while the promise holds

  [[nodiscard]] const Memory& memory() const noexcept { return memory_; }
  void restore(const Memory& memory) noexcept { memory_ = memory; }  // of an alarm with the same max_drop and alpha

 private:
  double max_drop_, alpha_;
  std::array<double, kMultiples.size()> stakes_{};
  Memory memory_ = {};
};

// The mean loss lies below this, at all times together, with probability at least 1 - delta: a confidence sequence from
// the beta-binomial mixture. `sum` is that of `count` losses in [0, 1].
[[nodiscard]] double anytime_upper_bound(double sum, int64_t count, double delta);

}  // namespace exeunt
