// SPDX-License-Identifier: Apache-2.0
// Is the promise kept? The whole calibration, temperatures and choice of family included, on random samples of a
// population whose true risk is known: a trace taken whole. EXEUNT_SPLITS sets how many samples.
#include <cstdlib>

#include "exeunt/exits/calibrate.h"
#include "exeunt/exits/losses.h"
#include "tests/exits/traces.h"
#include "tests/scratch.h"

namespace exeunt {
namespace {

int splits() {
  const char* text = std::getenv("EXEUNT_SPLITS");
  return text != nullptr ? std::atoi(text) : 15;
}

struct Coverage {
  double violations = 0;  // share of samples whose policy's true risk exceeds the budget
  double mean_risk = 0;   // over samples
  double deviation = 0;   // standard error of mean_risk
  double mean_cost = 0;
};

// Samples without replacement from a finite population: the bounds, made for independent draws, hold all the more.
Coverage cover(const ExitTrace& population, const CalibrationPlan& plan, SplitShares shares, unsigned seed) {
  const Loss loss = plan.loss.value_or(population.info.regression ? Loss::abs_diff : Loss::disagreement);
  LossMeter truth(population, loss, plan.range);
  Coverage coverage;
  double squares = 0;
  const int repeats = splits();
  for (int r = 0; r < repeats; ++r) {
    const CalibrationData data = split_for_calibration(population, seed + static_cast<unsigned>(r), shares);
    const Calibration result = calibrate(data, plan);
    const LossMeter::Measured measured = truth.measure(result.entry.complete());
    const double risk =
        std::accumulate(measured.losses.begin(), measured.losses.end(), 0.0) / static_cast<double>(population.rows);
    coverage.violations += (risk > plan.budgets.front() ? 1.0 : 0.0) / repeats;
    coverage.mean_risk += risk / repeats;
    coverage.mean_cost += measured.cost_fraction / repeats;
    squares += risk * risk / repeats;
  }
  coverage.deviation = std::sqrt(std::max(0.0, squares - coverage.mean_risk * coverage.mean_risk) / repeats);
  return coverage;
}

double allowed(double delta) {
  return delta + 3 * std::sqrt(delta * (1 - delta) / splits());
}

TEST(CoverageOfCalibration, OnSyntheticTraces) {
  // Exits that get surer with depth and disagree with the last one less and less.
  const ExitTrace population = random_trace({.rows = 6000, .exits = 6, .classes = 3});
  for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::ltt_hb, RiskMethod::wsr}) {
    const Coverage coverage =
        cover(population, {.budgets = {0.05}, .delta = 0.1, .method = method}, {.fit = 0.05, .certify = 0.1}, 1);
    EXPECT_LE(coverage.violations, allowed(0.1)) << name_of(method);
    EXPECT_LT(coverage.mean_cost, 0.95) << name_of(method) << ": a promise of nothing is easily kept";
  }
}

TEST(CoverageOfCalibration, OnRealTraces) {
  const ExitTrace sst2 = read_trace(real_trace("sst2-exeunt.held")), mnli = read_trace(real_trace("mnli-exeunt.held"));
  for (const ExitTrace* population : {&sst2, &mnli})
    for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::wsr}) {
      const Coverage coverage =
          cover(*population, {.budgets = {0.02}, .delta = 0.1, .method = method}, {.fit = 0.08, .certify = 0.16}, 100);
      EXPECT_LE(coverage.violations, allowed(0.1)) << population->info.task << ' ' << name_of(method);
      EXPECT_LT(coverage.mean_cost, 0.99) << population->info.task << ' ' << name_of(method);
    }
}

TEST(CoverageOfCalibration, OnTheDropInAccuracy) {
  const ExitTrace population = read_trace(real_trace("sst2-exeunt.held"));
  const Coverage coverage = cover(population, {.budgets = {0.02}, .delta = 0.1, .loss = Loss::zero_one_drop},
                                  {.fit = 0.08, .certify = 0.16}, 200);
  EXPECT_LE(coverage.violations, allowed(0.1));
  EXPECT_LT(coverage.mean_cost, 0.8);
}

TEST(CoverageOfCalibration, OnARegression) {
  const ExitTrace population = read_trace(real_trace("stsb-exeunt.dev"));
  const Coverage coverage =
      cover(population, {.budgets = {0.05}, .delta = 0.1, .range = {{0, 5}}}, {.fit = 0.15, .certify = 0.3}, 300);
  EXPECT_LE(coverage.violations, allowed(0.1));
  EXPECT_LT(coverage.mean_cost, 0.9);
}

TEST(CoverageOfCalibration, ConformalRiskIsWithinTheBudgetOnAverage) {
  const ExitTrace synthetic = random_trace({.rows = 6000, .exits = 6, .classes = 3});
  const ExitTrace real = read_trace(real_trace("sst2-exeunt.held"));
  for (const ExitTrace* population : {&synthetic, &real}) {
    const Coverage coverage =
        cover(*population, {.budgets = {0.02}, .method = RiskMethod::crc}, {.fit = 0.08, .certify = 0.08}, 400);
    EXPECT_LE(coverage.mean_risk, 0.02 + 2 * coverage.deviation);
    EXPECT_LT(coverage.mean_cost, 0.99);
  }
}

}  // namespace
}  // namespace exeunt
