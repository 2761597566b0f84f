// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/risk.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "exeunt/base/json.h"
#include "exeunt/certify/temperature.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

const Json& golden() {
  static const Json json = read_json(std::string(EXEUNT_TEST_DATA) + "/certify/golden/risk.json");
  return json;
}

// Equal to 1e-8 of the value, where SciPy's own answer is not already lost in the last digits of 1.
void expect_close(double got, double want, const std::string& what) {
  EXPECT_NEAR(got, want, 1e-8 * std::abs(want) + 1e-300) << what;
}

TEST(Special, SymmetricBinomialCdfIsHalf) {
  for (const int64_t k : {0, 2, 999, 99'999, 4'999'999}) EXPECT_NEAR(binomial_cdf(k, 2 * k + 1, 0.5), 0.5, 1e-9) << k;
}

// The cross build runs this on the other architecture.
TEST(Special, GivesTheSameBitsOnEveryArchitecture) {
  EXPECT_EQ(binomial_cdf(4, 408, 0.01), 0x1.39ecc900aff69p-1);
  EXPECT_EQ(binomial_cdf(159, 2000, 0.1), 0x1.ee18fd37a50dbp-11);
  EXPECT_EQ(binomial_cdf(932, 2000, 0.5), 0x1.4ba14aa315dacp-10);
}

TEST(Special, BinomialTailAndBoundMatchScipy) {
  for (const Json& c : golden()["binomial"]) {
    expect_close(binomial_cdf(c["k"], c["n"], c["p"]), c["cdf"], c.dump());
    for (const auto& [delta, upper] : c["upper"].items())
      expect_close(binomial_upper_bound(c["k"], c["n"], std::stod(delta)), upper, c.dump());
  }
  EXPECT_EQ(binomial_cdf(-1, 10, 0.5), 0);
  EXPECT_EQ(binomial_cdf(10, 10, 0.5), 1);
  EXPECT_EQ(binomial_upper_bound(10, 10, 0.05), 1);
  EXPECT_EQ(binomial_upper_bound(0, 0, 0.05), 1) << "no rows say nothing";
}

TEST(Risk, HoeffdingBentkusMatchesItsDefinition) {
  for (const Json& c : golden()["hoeffding_bentkus"])
    expect_close(hoeffding_bentkus_p_value(c["mean"], c["n"], c["alpha"]), c["value"], c.dump());
}

TEST(Risk, HoeffdingBentkusToleratesRounding) {
  double sum = 0;
  for (int i = 0; i < 30; ++i) sum += 0.1;  // 3.0000000000000013
  EXPECT_EQ(hoeffding_bentkus_p_value(sum / 300, 300, 0.05), hoeffding_bentkus_p_value(0.01, 300, 0.05));
}

TEST(Risk, BettingBoundsMatchTheirDefinition) {
  for (const Json& c : golden()["wsr"]) {
    const auto losses = c["losses"].get<std::vector<double>>();
    EXPECT_NEAR(wsr_upper_bound(losses, c["delta"]), c["upper"].get<double>(), 1e-9);
    for (const auto& [max_drop, p] : c["p"].items())
      expect_close(wsr_p_value(losses, std::stod(max_drop), c["delta"]), p, max_drop);
  }
}

TEST(Risk, OnePercentAtNinetyFiveNeeds299Rows) {
  EXPECT_EQ(rows_needed(0.01, 0.05), 299);
  EXPECT_LE(binomial_p_value(0, 299, 0.01), 0.05);
  EXPECT_GT(binomial_p_value(0, 298, 0.01), 0.05);
  EXPECT_EQ(rows_needed(0.01, 0.05, 1), 473);
  EXPECT_EQ(rows_needed(0.5, 0.5), 1);
  for (const double max_drop : {0.001, 0.01, 0.05, 0.3})
    for (const int64_t losses : {0, 3, 20}) {
      const int64_t rows = rows_needed(max_drop, 0.1, losses);
      EXPECT_GE(losses_allowed(rows, max_drop, 0.1), losses);
      EXPECT_LT(losses_allowed(rows - 1, max_drop, 0.1), losses);
    }
}

TEST(Risk, AllowedLossesMatchPublishedFigures) {
  // Sizes of the GLUE dev sets at delta = 0.1, exact binomial.
  EXPECT_EQ(losses_allowed(277, 0.01, 0.1), 0);
  EXPECT_EQ(losses_allowed(408, 0.01, 0.1), 1);
  EXPECT_EQ(losses_allowed(872, 0.01, 0.1), 4);
  EXPECT_EQ(losses_allowed(5463, 0.01, 0.1), 44);
  EXPECT_EQ(losses_allowed(9815, 0.01, 0.1), 85);
  EXPECT_EQ(losses_allowed(277, 0.02, 0.1), 2);
  EXPECT_EQ(losses_allowed(9815, 0.02, 0.1), 178);
  EXPECT_EQ(losses_allowed(100, 0.01, 0.05), -1);
}

// 2 % at 0.9 * 5 % takes 154, 242 and 320 rows for 0, 1 and 2 losses.
TEST(Risk, CriticalRowsAllowOneMoreLossOrSpareRows) {
  const auto critical = [](int64_t rows, int64_t most) { return critical_rows(rows, most, 0.02, 0.045); };
  EXPECT_EQ(critical(240, 250), 242);
  EXPECT_EQ(critical(300, 350), 320);
  EXPECT_EQ(critical(300, 310), 242) << "two losses are out of reach";
  EXPECT_EQ(critical(242, 250), 242);
  EXPECT_EQ(critical(100, 160), 154);
  EXPECT_EQ(critical(100, 120), 120) << "nothing certifies; no row is given away";
}

// Lost answers alone bound what is lost less what is gained.
TEST(Risk, BinomialOfADropCountsLostAnswers) {
  const RiskTest test{RiskLoss::zero_one_drop, RiskMethod::ltt_binomial, 0.02, 0.045};
  std::vector<double> losses(242, 0.0);
  const auto passes = [&] { return certify_sequence(test, 1, [&](size_t) { return losses; }).setting.has_value(); };
  losses[0] = 1;
  EXPECT_TRUE(passes());
  losses[1] = 1;
  EXPECT_FALSE(passes());
  losses[2] = losses[3] = -1;
  EXPECT_FALSE(passes()) << "gained answers do not make up for lost ones";
  EXPECT_FALSE(would_pass(test, losses, 242));
  EXPECT_TRUE(would_pass(test, losses, 10000)) << "0.8 % of them are lost";
}

TEST(Risk, FixedSequenceReturnsTheLastBeforeTheFirstFailure) {
  const auto chosen = [](std::vector<double> p) {
    return fixed_sequence(p.size(), 0.05, [&](size_t i) { return p[i]; });
  };
  EXPECT_EQ(chosen({0.001, 0.01, 0.05, 0.06, 0.001}), 2u) << "at delta passes; what follows a failure is not looked at";
  EXPECT_EQ(chosen({0.01}), 0u);
  EXPECT_EQ(chosen({0.06, 0.01}), std::nullopt);
  EXPECT_EQ(chosen({}), std::nullopt);
  EXPECT_EQ(chosen({0.01, std::nan("")}), 0u);
}

TEST(Risk, ConformalChoiceCountsTheNewRowAsLost) {
  // Nine rows; setting s loses s of them. (s + 1) / 10 <= 0.3 holds up to s = 2.
  std::vector<std::vector<double>> losses(6, std::vector<double>(9));
  for (size_t s = 0; s < 6; ++s)
    for (size_t row = 0; row < s; ++row) losses[s][row] = 1;
  const auto at = [&](size_t s) { return std::span<const double>(losses[s]); };
  EXPECT_EQ(conformal_choice(6, 0.3, 1, at), 2u);
  EXPECT_EQ(conformal_choice(6, 0.09, 1, at), std::nullopt);
  EXPECT_EQ(conformal_choice(3, 0.9, 1, at), 2u);
}

TEST(Risk, ConformalChoiceUsesEachRowsLargestLoss) {
  // Every setting loses one row, but each time another: bolder settings must not forget what safer ones lost.
  std::vector<std::vector<double>> losses(4, std::vector<double>(9));
  for (size_t s = 0; s < 4; ++s) losses[s][s] = 1;
  EXPECT_EQ(conformal_choice(4, 0.3, 1, [&](size_t s) { return std::span<const double>(losses[s]); }), 1u);
}

// Settings 0..19 with true risks 0.005, 0.01, …, 0.1; how often does testing pick one above the budget?
template <class PValue>
double violation_share(int repeats, size_t rows, double max_drop, double delta, PValue&& p_value) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit;
  int violations = 0;
  std::vector<double> losses(rows);
  for (int r = 0; r < repeats; ++r) {
    // One draw per row: a row is lost from some boldness on, so that settings agree as real ones do.
    std::vector<double> hardness(rows);
    for (double& h : hardness) h = unit(random);
    const auto chosen = fixed_sequence(20, delta, [&](size_t s) {
      const double risk = 0.005 * (static_cast<double>(s) + 1);
      for (size_t row = 0; row < rows; ++row) losses[row] = hardness[row] < risk ? 1 : 0;
      return p_value(losses);
    });
    if (chosen && 0.005 * (static_cast<double>(*chosen) + 1) > max_drop + 1e-12) ++violations;
  }
  return violations / static_cast<double>(repeats);
}

TEST(Coverage, TestsHaveTheirErrorRate) {
  const double delta = 0.1, max_drop = 0.05;
  const int repeats = 1500;
  const double allowance = delta + 3 * std::sqrt(delta * (1 - delta) / repeats);
  const auto losses_of = [](const std::vector<double>& losses) {
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  };
  const double binomial = violation_share(repeats, 400, max_drop, delta, [&](const std::vector<double>& losses) {
    return binomial_p_value(static_cast<int64_t>(losses_of(losses)), static_cast<int64_t>(losses.size()), max_drop);
  });
  EXPECT_LE(binomial, allowance);
  EXPECT_GT(binomial, delta / 5) << "a test that never errs at the edge would be wasteful";
  EXPECT_LE(violation_share(repeats, 400, max_drop, delta,
                            [&](const std::vector<double>& losses) {
                              return hoeffding_bentkus_p_value(losses_of(losses) / 400, 400, max_drop);
                            }),
            allowance);
  EXPECT_LE(violation_share(repeats / 3, 400, max_drop, delta,
                            [&](const std::vector<double>& losses) { return wsr_p_value(losses, max_drop, delta); }),
            delta + 3 * std::sqrt(delta * (1 - delta) / (repeats / 3)));
}

TEST(Coverage, ConformalRiskIsWithinBudgetOnAverage) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit;
  const double max_drop = 0.05;
  double sum = 0, squares = 0;
  const int repeats = 1000;
  for (int r = 0; r < repeats; ++r) {
    std::vector<double> hardness(200), losses(200);
    for (double& h : hardness) h = unit(random);
    const auto chosen = conformal_choice(100, max_drop, 1, [&](size_t s) {
      for (size_t row = 0; row < 200; ++row) losses[row] = hardness[row] < 0.002 * (static_cast<double>(s) + 1) ? 1 : 0;
      return std::span<const double>(losses);
    });
    const double risk = chosen ? 0.002 * (static_cast<double>(*chosen) + 1) : 0;
    sum += risk;
    squares += risk * risk;
  }
  const double mean = sum / repeats, deviation = std::sqrt((squares / repeats - mean * mean) / repeats);
  EXPECT_LE(mean, max_drop + 2 * deviation);
  EXPECT_GT(mean, max_drop * 0.8);
}

TEST(Tries, SumOfAllLevelsIsAtMostDelta) {
  double sum = 0;
  for (int k = 1; k <= 60; ++k) {
    EXPECT_GT(share_of_try(k), 0);
    sum += share_of_try(k);
  }
  EXPECT_LE(sum, 1);
  EXPECT_GT(sum, 0.999);
  EXPECT_EQ(share_of_try(1), 0.9);
}

// The mean over the rows, in nats.
double negative_log_likelihood(const ExitTrace& trace, int exit, const std::vector<int>& targets, double temperature) {
  double total = 0;
  for (size_t row = 0; row < trace.rows; ++row) {
    const std::span<const float> logits = trace.at(row, exit);
    const double peak = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp((logit - peak) / temperature);
    total += std::log(sum) - (logits[static_cast<size_t>(targets[row])] - peak) / temperature;
  }
  return total / static_cast<double>(trace.rows);
}

TEST(Temperature, MatchesScipy) {
  for (const Json& c : golden()["temperature"]) {
    ExitTrace trace = random_trace({.rows = 60, .exits = 1, .classes = c["classes"].get<int>()});
    trace.logits = c["logits"].get<std::vector<float>>();
    const auto targets = c["targets"].get<std::vector<int>>();
    const float fitted = fit_temperature(trace, 0, targets);
    EXPECT_NEAR(fitted, c["temperature"].get<double>(), 1e-4 * fitted);
    EXPECT_NEAR(negative_log_likelihood(trace, 0, targets, fitted), c["nll"].get<double>(), 1e-8);
    EXPECT_NEAR(negative_log_likelihood(trace, 0, targets, 1), c["nll_at_1"].get<double>(), 1e-6);
    for (size_t row = 0; row < trace.rows; ++row) trace.gold[row] = static_cast<float>(targets[row]);
    EXPECT_EQ(score_temperatures(trace).at(0), fitted);
  }
}

TEST(Temperature, StaysWithinItsLimits) {
  ExitTrace trace = random_trace({.rows = 4, .exits = 1, .classes = 2});
  trace.logits = {1, 0, 1, 0, 1, 0, 1, 0};
  const std::vector<int> right{0, 0, 0, 0}, wrong{1, 1, 1, 1};
  EXPECT_EQ(fit_temperature(trace, 0, right), kMinTemperature) << "always right: as sure as can be";
  EXPECT_EQ(fit_temperature(trace, 0, wrong), kMaxTemperature) << "always wrong: as unsure as can be";
  trace.logits = {1e38F, -1e38F, 1e38F, -1e38F, 1e38F, -1e38F, -1e38F, 1e38F};
  const float extreme = fit_temperature(trace, 0, right);
  EXPECT_GE(extreme, kMinTemperature);
  EXPECT_LE(extreme, kMaxTemperature);
  trace.logits.assign(8, 0);
  const float flat = fit_temperature(trace, 0, right);
  EXPECT_GE(flat, kMinTemperature);
  EXPECT_LE(flat, kMaxTemperature);
}

TEST(Temperature, IsShrunkByAPenaltyOnItsLogarithm) {
  ExitTrace trace = random_trace({.rows = 4, .exits = 1, .classes = 2});
  trace.logits = {1, 0, 1, 0, 1, 0, 1, 0};
  const std::vector<int> right{0, 0, 0, 0};
  const auto loss_at = [&](double t) {
    return 4 * negative_log_likelihood(trace, 0, right, t) + std::log(t) * std::log(t);
  };
  const float fitted = fit_temperature(trace, 0, right, 1);
  EXPECT_GT(fitted, kMinTemperature) << "four rows are not proof of certainty";
  EXPECT_LT(fitted, 1);
  for (double t = 0.05; t < 20; t *= 1.01) EXPECT_LE(loss_at(fitted), loss_at(t) + 1e-9) << t;
}

// Exits have to agree with full depth, whatever the gold labels say; what users see is calibrated to those.
TEST(Temperature, FitsDecisionsToFullDepthAndScoresToGold) {
  ExitTrace trace = random_trace({.rows = 300, .exits = 3, .classes = 3});
  std::vector<int> last;
  for (size_t row = 0; row < trace.rows; ++row) {
    const std::span<const float> z = trace.at(row, 2);
    last.push_back(static_cast<int>(std::max_element(z.begin(), z.end()) - z.begin()));
  }
  const std::vector<float> decision = decision_temperatures(trace), score = score_temperatures(trace);
  EXPECT_EQ(decision[0], fit_temperature(trace, 0, last, 1));
  EXPECT_EQ(decision[1], fit_temperature(trace, 1, last, 1));
  EXPECT_EQ(decision[2], 1) << "the last exit does not decide";
  const std::vector<int> gold(trace.gold.begin(), trace.gold.end());
  for (int exit = 0; exit < 3; ++exit)
    EXPECT_EQ(score[static_cast<size_t>(exit)], fit_temperature(trace, exit, gold)) << exit;
  EXPECT_NE(score[0], decision[0]);
  for (float& one : trace.gold) one = NAN;
  EXPECT_EQ(decision_temperatures(trace), decision) << "labels make no difference";
  EXPECT_EQ(score_temperatures(trace), std::vector<float>(3, 1.0F));
  const ExitTrace numbers = random_trace({.classes = 1});
  EXPECT_EQ(decision_temperatures(numbers), std::vector<float>(4, 1.0F));
  EXPECT_EQ(score_temperatures(numbers), std::vector<float>(4, 1.0F));
}

TEST(Temperature, LowersNegativeLogLikelihoodOfARealTrace) {
  const ExitTrace fit = read_trace(real_trace("sst2-exeunt.held")), fresh = read_trace(real_trace("sst2-exeunt.dev"));
  const std::vector<float> temperatures = score_temperatures(fit);
  std::vector<int> gold;
  for (const float g : fresh.gold) gold.push_back(static_cast<int>(g));
  int better = 0;
  for (int exit = 0; exit < fresh.exits; ++exit)
    better += negative_log_likelihood(fresh, exit, gold, temperatures[static_cast<size_t>(exit)]) <=
              negative_log_likelihood(fresh, exit, gold, 1);
  EXPECT_GE(better, 9) << "of 12, on data the fit has not seen";
}

}  // namespace
}  // namespace exeunt
