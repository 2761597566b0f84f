// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/risk.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

// The guard of a header that sums in another order on x86-64: without it, both architectures give the same bits.
#define BOOST_MATH_SPECIAL_FUNCTIONS_LANCZOS_SSE2
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

void check_share(double max_drop) {
  check(max_drop > 0 && max_drop < 1, "a maximum drop is between 0 and 1");
}

// The point in [low, high] where a falling `excess` crosses zero, rounded up: the bound it gives stays a bound.
template <class Excess>
double crossing(double low, double high, Excess&& excess) {
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = low + (high - low) / 2;
    (excess(middle) > 0 ? low : high) = middle;
  }
  return high;
}

// The least count above `fails` that passes, where all larger ones do; found by doubling up to `most`, then halving the
// gap.
template <class Passes>
int64_t first_passing(int64_t fails, int64_t most, Passes&& passes_with) {
  int64_t passes = fails + 1;
  while (passes < most && !passes_with(passes)) {
    fails = passes;
    passes *= 2;
  }
  while (passes - fails > 1) {
    const int64_t middle = fails + (passes - fails) / 2;
    (passes_with(middle) ? passes : fails) = middle;
  }
  return passes;
}

// The bets against "the mean is at most m": nu_i = min(cap, sqrt(2 ln(1/delta) / (n var_(i-1)))), each from the rows
// before it only (Bates et al. 2021, proposition 5).
std::vector<double> bets(std::span<const double> losses, double delta) {
  const auto rows = static_cast<double>(losses.size());
  std::vector<double> nu;
  nu.reserve(losses.size());
  double sum = 0.5, squares = 0.25;
  for (size_t i = 0; i < losses.size(); ++i) {
    const double seen = static_cast<double>(i) + 1;
    nu.push_back(std::sqrt(2 * std::log(1 / delta) / (rows * squares / seen)));
    sum += losses[i];
    const double mean = sum / (seen + 1);
    squares += (losses[i] - mean) * (losses[i] - mean);
  }
  return nu;
}

// The logarithm of the largest capital ever held when betting that the mean is below `mean`. No bet exceeds `cap`.
double best_log_capital(std::span<const double> losses, std::span<const double> nu, double mean, double cap) {
  double capital = 0, best = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    capital += std::log1p(-std::min(cap, nu[i]) * (losses[i] - mean));
    best = std::max(best, capital);
  }
  return best;
}

// Boost would compute in long double, which is not the same type on x86-64 and aarch64.
constexpr boost::math::policies::policy<boost::math::policies::promote_double<false>> kInDouble;

// Tests take losses in [0, 1]; others are scaled to it, and the budget with them.
// The values a loss may take. A mean loss of `max_drop` is a share of at most this.
struct LossRange {
  double low = 0, high = 1;
};
LossRange range_of(const RiskLoss& loss) noexcept {
  return {info_of(loss).least, 1};
}

double to_unit(double value, LossRange range) {
  return (value - range.low) / (range.high - range.low);
}

double from_unit(double value, LossRange range) {
  return range.low + value * (range.high - range.low);
}

double sum_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

std::vector<double> unit_losses(const std::vector<double>& losses, LossRange range) {
  std::vector<double> unit;
  unit.reserve(losses.size());
  for (const double loss : losses) unit.push_back(to_unit(loss, range));
  return unit;
}

double p_value_of(const RiskTest& test, const std::vector<double>& losses) {
  const LossRange range = range_of(test.loss);
  const auto rows = static_cast<int64_t>(losses.size());
  const double max_drop = to_unit(test.max_drop, range);
  switch (test.method) {
    case RiskMethod::ltt_binomial:
      return binomial_p_value(std::llround(lost_sum(losses)), rows, test.max_drop);
    case RiskMethod::ltt_hb:
      return hoeffding_bentkus_p_value(sum_of(unit_losses(losses, range)) / static_cast<double>(rows), rows, max_drop);
    default:
      return wsr_p_value(unit_losses(losses, range), max_drop, test.delta);
  }
}

// A test over clusters is one with these losses in place of l, the mean loss of a cluster of w rows:
// w (l - max_drop) / most + max_drop. Their mean is at most max_drop if and only if that of all rows is, and they lie
// in the same range.
std::vector<double> counted(const RiskTest& test, std::vector<double> losses, const Weights& weights) {
  if (weights.of.empty()) return losses;
  const LossRange range = range_of(test.loss);
  for (size_t row = 0; row < losses.size(); ++row) {
    const double weight = std::min(weights.of[row % weights.of.size()], weights.most);
    losses[row] =
        std::clamp(weight * (losses[row] - test.max_drop) / weights.most + test.max_drop, range.low, range.high);
  }
  return losses;
}

bool passes(const RiskTest& test, const std::vector<double>& losses) {
  if (losses.empty()) return false;
  if (test.method == RiskMethod::crc) {
    const double most = range_of(test.loss).high;
    return (sum_of(losses) + most) / (static_cast<double>(losses.size()) + 1) <= test.max_drop;
  }
  return p_value_of(test, losses) <= test.delta;
}

// Repeats the losses up to `rows`. The bounds for losses other than 0 and 1 depend on more than their mean.
std::vector<double> repeated(const std::vector<double>& losses, int64_t rows) {
  std::vector<double> out(static_cast<size_t>(rows));
  for (size_t row = 0; row < out.size(); ++row) out[row] = losses[row % losses.size()];
  return out;
}

bool would_pass_alone(const RiskTest& test, const std::vector<double>& losses, int64_t rows) {
  if (losses.empty() || rows == 0) return false;
  const LossRange range = range_of(test.loss);
  const double scale = static_cast<double>(rows) / static_cast<double>(losses.size());
  if (test.method == RiskMethod::crc)
    return (scale * sum_of(losses) + range.high) / (static_cast<double>(rows) + 1) <= test.max_drop;
  if (test.method == RiskMethod::ltt_binomial) {
    const auto lost = static_cast<int64_t>(std::ceil(scale * lost_sum(losses)));
    return binomial_p_value(lost, rows, test.max_drop) <= test.delta;
  }
  return passes(test, repeated(losses, rows));
}

SequenceResult walk(const RiskTest& test, size_t settings, const std::function<std::vector<double>(size_t)>& losses) {
  SequenceResult result;
  if (test.method == RiskMethod::crc) {
    std::vector<double> now;
    result.setting = conformal_choice(settings, test.max_drop, range_of(test.loss).high, [&](size_t i) {
      now = losses(i);
      return std::span<const double>(now);
    });
  } else {
    result.setting = fixed_sequence(settings, test.delta, [&](size_t i) {
      const double p = p_value_of(test, losses(i));
      if (p <= test.delta) result.p_value = p;
      return p;
    });
  }
  return result;
}

// The share of the level for bets that begin at `time`: it falls like 1 / (t ln² t), slowly, beyond the first kEarly
// losses, and all of them add up to less than 1 (the integral of the first factor is 1, its first term 1 / (kEarly e)).
double share_of_start(int64_t time) {
  constexpr double kEarly = 1000;
  const double t = static_cast<double>(time) / kEarly + std::numbers::e;
  const double log_t = std::log(t);
  return 1 / (kEarly * t * log_t * log_t) / (1 + 1 / (kEarly * std::numbers::e));
}

double log_beta(double a, double b) {
  return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
}

}  // namespace

double lost_sum(const std::vector<double>& losses) {
  return std::transform_reduce(losses.begin(), losses.end(), 0.0, std::plus<>(),
                               [](double loss) { return std::max(loss, 0.0); });
}

double binomial_p_value(int64_t losses, int64_t rows, double max_drop) {
  check_share(max_drop);
  check(losses >= 0 && losses <= rows, "losses are counted among the rows");
  return binomial_cdf(losses, rows, max_drop);
}

double binomial_upper_bound(int64_t losses, int64_t rows, double delta) {
  check_share(delta);
  check(losses >= 0 && losses <= rows, "losses are counted among the rows");
  if (losses == rows) return 1;
  return crossing(static_cast<double>(losses) / static_cast<double>(rows), 1,
                  [&](double p) { return binomial_cdf(losses, rows, p) - delta; });
}

double beta_binomial_cdf(int64_t k, int64_t n, double alpha, double beta) {
  check(n >= 0 && alpha > 0 && beta > 0, "a beta distribution has positive parameters");
  const auto log_beta = [](double a, double b) {
    return boost::math::lgamma(a) + boost::math::lgamma(b) - boost::math::lgamma(a + b);
  };
  const auto rows = static_cast<double>(n);
  double sum = 0;
  for (int64_t i = 0; i <= std::min(k, n); ++i) {
    const auto lost = static_cast<double>(i);
    const double choose = -std::log(rows + 1) - log_beta(lost + 1, rows - lost + 1);
    sum += std::exp(choose + log_beta(lost + alpha, rows - lost + beta) - log_beta(alpha, beta));
  }
  return std::min(sum, 1.0);
}

double hoeffding_bentkus_p_value(double mean, int64_t rows, double max_drop) {
  check_share(max_drop);
  check(mean >= 0 && mean <= 1 && rows > 0, "a mean of losses in [0, 1]");
  const double a = std::min(mean, max_drop), n = static_cast<double>(rows);
  // n times the relative entropy of a coin of bias a to one of bias max_drop.
  const double entropy = (a > 0 ? a * std::log(a / max_drop) : 0) + (1 - a) * std::log((1 - a) / (1 - max_drop));
  const double hoeffding = std::exp(-n * entropy);
  // A sum of floats may exceed an integer by rounding, which must not count as a whole loss.
  const auto losses = static_cast<int64_t>(std::ceil(n * mean - 1e-9 * n));
  const double bentkus = std::exp(1.0) * binomial_cdf(losses, rows, max_drop);
  return std::min({hoeffding, bentkus, 1.0});
}

double wsr_p_value(std::span<const double> losses, double max_drop, double delta) {
  check_share(max_drop);
  check_share(delta);
  // Any bet up to 1 / (1 - max_drop) keeps the capital above zero; just below it, one loss is not the end.
  const double cap = 0.99 / (1 - max_drop);
  return std::exp(-best_log_capital(losses, bets(losses, delta), max_drop, cap));
}

double wsr_upper_bound(std::span<const double> losses, double delta) {
  check_share(delta);
  const std::vector<double> nu = bets(losses, delta);
  const double wanted = std::log(1 / delta);
  // With bets of at most 1 the capital grows with the mean bet against, so there is one crossing.
  return crossing(0, 1, [&](double mean) { return wanted - best_log_capital(losses, nu, mean, 1.0 - 1e-12); });
}

int64_t losses_allowed(int64_t rows, double max_drop, double delta) {
  check_share(max_drop);
  check_share(delta);
  int64_t passes = -1, fails = rows;  // P(X <= rows) = 1 never passes
  while (fails - passes > 1) {
    const int64_t middle = passes + (fails - passes) / 2;
    (binomial_cdf(middle, rows, max_drop) <= delta ? passes : fails) = middle;
  }
  return passes;
}

int64_t rows_needed(double max_drop, double delta, int64_t losses) {
  check_share(max_drop);
  check_share(delta);
  return first_passing(losses, int64_t{1} << 52,
                       [&](int64_t rows) { return binomial_cdf(losses, rows, max_drop) <= delta; });
}

int64_t critical_rows(int64_t rows, int64_t most, double max_drop, double delta) {
  const int64_t allowed = losses_allowed(rows, max_drop, delta);
  const int64_t next = rows_needed(max_drop, delta, allowed + 1);
  return next <= most || allowed < 0 ? std::min(next, most) : rows_needed(max_drop, delta, allowed);
}

double share_of_try(int k) {
  check(k >= 1, "tries count from 1");
  return k == 1 ? 0.9 : 0.1 * std::ldexp(1.0, 1 - k);
}

std::optional<size_t> fixed_sequence(size_t settings, double delta, const std::function<double(size_t)>& p_value) {
  check_share(delta);
  std::optional<size_t> last;
  for (size_t setting = 0; setting < settings; ++setting) {
    if (!(p_value(setting) <= delta)) break;
    last = setting;
  }
  return last;
}

std::optional<size_t> conformal_choice(size_t settings, double max_drop, double most,
                                       const std::function<std::span<const double>(size_t)>& losses) {
  std::optional<size_t> last;
  std::vector<double> worst;
  for (size_t setting = 0; setting < settings; ++setting) {
    const std::span<const double> now = losses(setting);
    if (worst.empty()) worst.assign(now.begin(), now.end());
    check(now.size() == worst.size() && !now.empty(), "every setting loses on the same rows");
    double sum = 0;
    for (size_t row = 0; row < now.size(); ++row) {
      worst[row] = std::max(worst[row], now[row]);
      sum += worst[row];
    }
    // (n mean + most) / (n + 1) <= max_drop: the new row is given the largest loss.
    if ((sum + most) / (static_cast<double>(now.size()) + 1) > max_drop) break;
    last = setting;
  }
  return last;
}

double binomial_cdf(int64_t k, int64_t n, double p) {
  check(n >= 0 && p >= 0 && p <= 1, "a binomial has n >= 0 and p in [0, 1]");
  if (k < 0) return 0;
  if (k >= n) return 1;
  return boost::math::ibetac(static_cast<double>(k) + 1, static_cast<double>(n - k), p, kInDouble);
}

double chi_square_tail(double x, int degrees) {
  check(degrees > 0, "a chi-square variable has degrees of freedom");
  if (!(x > 0)) return 1;
  return boost::math::gamma_q(degrees / 2.0, x / 2, kInDouble);
}

Draws draws_of(const std::vector<double>& losses, const Sample& sample, const std::vector<size_t>* rows) {
  Draws out{.weights = {.most = sample.most}};
  std::vector<size_t> place(sample.cluster.size(), losses.size());  // of the draw that a cluster is
  for (size_t i = 0; i < (rows != nullptr ? rows->size() : losses.size()); ++i) {
    const size_t row = rows != nullptr ? (*rows)[i] : i;
    if (!sample.known.empty() && sample.known[row] && losses[row] <= 0) continue;
    if (sample.cluster.empty()) {
      out.losses.push_back(losses[row]);
      continue;
    }
    size_t& at = place[sample.cluster[row]];
    if (at == losses.size()) {
      at = out.losses.size();
      out.losses.push_back(0);
      out.weights.of.push_back(0);
    }
    out.losses[at] += (losses[row] - out.losses[at]) / ++out.weights.of[at];
  }
  return out;
}

SequenceResult certify_sequence(const RiskTest& test, size_t settings,
                                const std::function<std::vector<double>(size_t)>& losses, const Sample& sample) {
  check(settings > 0, "a sequence begins with full depth");
  const auto drawn = [&](const RiskTest& own, size_t i, const std::vector<size_t>* rows) {
    Draws draws = draws_of(losses(i), sample, rows);
    return counted(own, std::move(draws.losses), draws.weights);
  };
  SequenceResult result{.setting = settings - 1};
  if (sample.whole) result = walk(test, settings, [&](size_t i) { return drawn(test, i, nullptr); });
  // A set walks no further than the others did: a setting must pass in all, and so must every one before it.
  for (const RowSet& set : sample.sets) {
    if (!result.setting || set.rows.empty()) return {};
    const RiskTest own = test_of(test, set);
    const SequenceResult part = walk(own, *result.setting + 1, [&](size_t i) { return drawn(own, i, &set.rows); });
    // Where the set ends the walk earlier, the others passed there, too: their p-values were below delta.
    result.p_value = part.setting == result.setting ? std::max(result.p_value, part.p_value) : part.p_value;
    result.setting = part.setting;
  }
  if (!sample.sets_of || !result.setting) return result;
  double passed = result.p_value;
  result.setting = fixed_sequence(*result.setting + 1, test.delta, [&](size_t i) {
    double p = 0;
    for (const RowSet& set : sample.sets_of(i)) {
      const RiskTest own = test_of(test, set);
      p = std::max(p, set.rows.empty() ? 1 : p_value_of(own, drawn(own, i, &set.rows)));
    }
    if (p <= test.delta) passed = std::max(result.p_value, p);
    return p;
  });
  result.p_value = passed;
  return result;
}

bool would_pass(const RiskTest& test, const std::vector<double>& losses, int64_t rows, const Sample& sample) {
  const double scale = static_cast<double>(rows) / static_cast<double>(losses.size());
  const auto passes_on = [&](const RiskTest& own, const std::vector<size_t>* of) {
    Draws draws = draws_of(losses, sample, of);
    const std::vector<double> all = counted(own, std::move(draws.losses), draws.weights);
    return would_pass_alone(own, all, static_cast<int64_t>(scale * static_cast<double>(all.size()) + 1e-9));
  };
  return (!sample.whole || passes_on(test, nullptr)) &&
         std::all_of(sample.sets.begin(), sample.sets.end(),
                     [&](const RowSet& set) { return passes_on(test_of(test, set), &set.rows); });
}

RiskTest test_of(RiskTest test, const RowSet& set) {
  test.max_drop = set.max_drop.value_or(test.max_drop);
  return test;
}

int64_t rows_without_loss(const RiskTest& test, const Weights& weights) {
  if (test.method == RiskMethod::ltt_binomial) return rows_needed(test.max_drop, test.delta);
  const auto enough = [&](int64_t rows) {
    return passes(test, counted(test, std::vector<double>(static_cast<size_t>(rows), 0.0), weights));
  };
  return first_passing(0, int64_t{1} << 26, enough);
}

double least_max_drop(const RiskTest& test, int64_t rows, const Weights& weights) {
  const std::vector<double> nothing(static_cast<size_t>(rows), 0.0);
  double low = test.max_drop, high = 1;
  for (int i = 0; i < 60; ++i) {
    RiskTest wider = test;
    wider.max_drop = (low + high) / 2;
    (passes(wider, counted(wider, nothing, weights)) ? high : low) = wider.max_drop;
  }
  return high;
}

LossInterval loss_interval(const RiskLoss& loss, const std::vector<double>& losses, double delta) {
  const LossRange range = range_of(loss);
  if (losses.empty()) return {range.low, range.high};
  if (info_of(loss).counts && range.low == 0) {
    const auto rows = static_cast<int64_t>(losses.size());
    const int64_t lost = std::llround(sum_of(losses));
    // The least share is what the greatest share of the others leaves.
    return {1 - binomial_upper_bound(rows - lost, rows, delta / 2), binomial_upper_bound(lost, rows, delta / 2)};
  }
  std::vector<double> unit = unit_losses(losses, range);
  const double high = from_unit(wsr_upper_bound(unit, delta / 2), range);
  for (double& one : unit) one = 1 - one;
  return {from_unit(1 - wsr_upper_bound(unit, delta / 2), range), high};
}

RiskAlarm::RiskAlarm(double max_drop, double alpha) : max_drop_(max_drop), alpha_(alpha) {
  check(max_drop > 0 && max_drop < 1 && alpha > 0 && alpha < 1, "a budget and a level between 0 and 1");
  for (size_t i = 0; i < kMultiples.size(); ++i) {
    const double mean = std::min(kMultiples[i] * max_drop, (1 + max_drop) / 2);
    stakes_[i] = (mean - max_drop) / (max_drop * (1 - max_drop));  // for losses of 0 and 1 the likelihood ratio
  }
}

void RiskAlarm::record(double loss) {
  check(loss >= 0 && loss <= 1, "a loss between 0 and 1");
  const double share = share_of_start(memory_.losses++) / static_cast<double>(stakes_.size());
  for (size_t i = 0; i < stakes_.size(); ++i) {
    // Beyond the alarm only its having been raised counts; the bound keeps the product finite.
    double& wealth = memory_.wealth[i];
    wealth = std::min((wealth + share) * (1 + stakes_[i] * (loss - max_drop_)), 1e100);
  }
  memory_.raised = memory_.raised || evidence() >= 1 / alpha_;
}

double RiskAlarm::evidence() const noexcept {
  return std::accumulate(memory_.wealth.begin(), memory_.wealth.end(), 0.0);
}

// For losses x in [0, 1] with mean m, (q/m)^x ((1-q)/(1-m))^(1-x) is at most x q/m + (1-x) (1-q)/(1-m), which has mean
// 1. Its product over the stream, averaged over q drawn from Beta(1/2, 1/2), therefore exceeds 1 / delta at any time
// with probability at most delta; means m for which it does are ruled out.
double anytime_upper_bound(double sum, int64_t count, double delta) {
  check(sum >= 0 && sum <= static_cast<double>(count) && delta > 0 && delta < 1, "losses between 0 and 1");
  const double rest = static_cast<double>(count) - sum;
  const double mixture = log_beta(0.5 + sum, 0.5 + rest) - log_beta(0.5, 0.5);
  const auto ruled_out = [&](double mean) {
    return mixture - sum * std::log(mean) - rest * std::log1p(-mean) > -std::log(delta);
  };
  double low = count == 0 ? 0 : sum / static_cast<double>(count), high = 1;
  for (int i = 0; i < 60 && low < high; ++i) {
    const double middle = (low + high) / 2;
    (middle < 1 && !ruled_out(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace exeunt
