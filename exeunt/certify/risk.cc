// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/risk.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/certify/special.h"

namespace exeunt {
namespace {

void check_share(double max_drop) {
  check(max_drop > 0 && max_drop < 1, "a budget lies between 0 and 1");
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

}  // namespace

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
  int64_t fails = losses, passes = losses + 1;
  while (binomial_cdf(losses, passes, max_drop) > delta) {
    fails = passes;
    passes *= 2;
  }
  while (passes - fails > 1) {
    const int64_t middle = fails + (passes - fails) / 2;
    (binomial_cdf(losses, middle, max_drop) <= delta ? passes : fails) = middle;
  }
  return passes;
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

}  // namespace exeunt
