// SPDX-License-Identifier: Apache-2.0
// Is the promise kept? The whole calibration, temperatures and choice of family included, on random splits of a
// population whose true risk is known: a trace taken whole. EXEUNT_SPLITS sets how many; each row printed is a figure
// to look at. A promise that is too bold must be found out, so each kind is also tried with a wrong bound.
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "exeunt/base/parallel.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/losses.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

constexpr double kDelta = 0.1;

int splits() {
  const char* text = std::getenv("EXEUNT_SPLITS");
  return text != nullptr ? std::atoi(text) : 300;
}

struct Coverage {
  double violations = 0;      // share of splits whose policy's true risk exceeds the budget
  double mean_risk = 0;       // over splits
  double standard_error = 0;  // of mean_risk
  double mean_cost = 0;
};

struct Trial {
  const ExitTrace& population;
  CalibrationPlan plan;
  SplitShares shares;
  double promised;  // the budget that is held against the true risk
};

// Splits without replacement of a finite population: the bounds, made for independent draws, hold all the more.
Coverage cover(std::string_view name, const Trial& trial, int count = splits()) {
  const RiskLoss loss = trial.plan.loss.value_or(
      trial.population.info.problem == Problem::regression ? RiskLoss::abs_diff : RiskLoss::disagreement);
  std::vector<double> risk(static_cast<size_t>(count)), cost(risk.size());
  parallel_for(2, 2, [&](int64_t half) {
    LossMeter truth(trial.population, loss, trial.plan.range);
    for (auto r = static_cast<size_t>(half); r < risk.size(); r += 2) {
      const CalibrationData data = split_for_calibration(trial.population, 1000 + r, trial.shares);
      const LossMeter::Measured measured = truth.measure(calibrate(data, trial.plan).entry.complete());
      risk[r] = std::accumulate(measured.losses.begin(), measured.losses.end(), 0.0) /
                static_cast<double>(trial.population.rows);
      cost[r] = measured.cost_fraction;
    }
  });
  Coverage coverage;
  double squares = 0;
  for (size_t r = 0; r < risk.size(); ++r) {
    coverage.violations += (risk[r] > trial.promised ? 1.0 : 0.0) / count;
    coverage.mean_risk += risk[r] / count;
    coverage.mean_cost += cost[r] / count;
    squares += risk[r] * risk[r] / count;
  }
  coverage.standard_error = std::sqrt(std::max(0.0, squares - coverage.mean_risk * coverage.mean_risk) / count);
  std::cout << fmt::format(
      "  {}: {} splits, {:.1f} % over {:g} %, mean risk {:.3f} % +- {:.3f}, {:.0f} % of the layers\n", name, count,
      100 * coverage.violations, 100 * trial.promised, 100 * coverage.mean_risk, 100 * coverage.standard_error,
      100 * coverage.mean_cost);
  return coverage;
}

// delta, and three binomial standard errors on top.
double allowed(int count = splits()) {
  return kDelta + 3 * std::sqrt(kDelta * (1 - kDelta) / count);
}

// Three families to choose from rather than all: as good a test, in half the time.
CalibrationPlan plan_of(double max_drop, RiskMethod method) {
  return {.max_drops = {max_drop}, .delta = kDelta, .method = method, .families = {"entropy", "patience", "vote"}};
}

// Every second exit, for the same reason.
CalibrationPlan real_plan(double max_drop, RiskMethod method) {
  CalibrationPlan plan = plan_of(max_drop, method);
  plan.exits = {2, 4, 6, 8, 10, 12};
  return plan;
}

const ExitTrace& synthetic() {
  // Exits that get surer with depth and disagree with the last one less and less.
  static const ExitTrace trace = random_trace({.rows = 4000, .exits = 4, .classes = 3});
  return trace;
}

const ExitTrace& sst2() {
  static const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  return trace;
}

constexpr SplitShares kSynthetic{.fit = 0.05, .certify = 0.12}, kReal{.fit = 0.06, .certify = 0.12};

TEST(CoverageOfCalibration, LearnThenTestAndBettingBoundsHaveTheirCoverage) {
  for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::wsr}) {
    const std::string name(name_of(method));
    const Coverage made = cover("synthetic, " + name, {synthetic(), plan_of(0.05, method), kSynthetic, 0.05});
    EXPECT_LE(made.violations, allowed()) << name;
    EXPECT_LT(made.mean_cost, 0.95) << name << ": a promise of nothing is easily kept";
    const Coverage real = cover("SST-2, " + name, {sst2(), real_plan(0.03, method), kReal, 0.03});
    EXPECT_LE(real.violations, allowed()) << name;
    EXPECT_LT(real.mean_cost, 0.6) << name;
  }
}

TEST(CoverageOfCalibration, ConformalRiskIsWithinTheBudgetOnAverage) {
  const Coverage made = cover("synthetic, crc", {synthetic(), plan_of(0.05, RiskMethod::crc), kSynthetic, 0.05});
  EXPECT_LE(made.mean_risk, 0.05 + 2 * made.standard_error);
  EXPECT_LT(made.mean_cost, 0.95);
  const Coverage real = cover("SST-2, crc", {sst2(), real_plan(0.03, RiskMethod::crc), kReal, 0.03});
  EXPECT_LE(real.mean_risk, 0.03 + 2 * real.standard_error);
  EXPECT_LT(real.mean_cost, 0.6);
}

// The same test, given bounds that promise more than they hold, must say no.
TEST(CoverageOfCalibration, DetectsAnInvalidBound) {
  constexpr int kCount = 100;
  for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::wsr}) {
    CalibrationPlan bold = real_plan(0.03, method);
    bold.delta = 0.5;  // as if a sample no better than the budget were proof
    EXPECT_GT(cover(fmt::format("SST-2, {} at the wrong level", name_of(method)), {sst2(), bold, kReal, 0.03}, kCount)
                  .violations,
              allowed(kCount));
  }
  const Coverage loose =
      cover("SST-2, crc of a wider budget", {sst2(), real_plan(0.04, RiskMethod::crc), kReal, 0.03}, kCount);
  EXPECT_GT(loose.mean_risk, 0.03 + 2 * loose.standard_error);
}

// A first exit before the first layer, which some answers leave at.
TEST(CoverageOfCalibration, HoldsWithExit0) {
  ExitTrace population = synthetic();
  population.info.layers = {0, 1, 2, 3};
  const int count = splits() / 3;
  const CalibrationPlan plan = plan_of(0.05, RiskMethod::ltt_binomial);
  const Coverage coverage = cover("synthetic with exit 0", {population, plan, kSynthetic, 0.05}, count);
  EXPECT_LE(coverage.violations, allowed(count));
  const CalibrationData data = split_for_calibration(population, 1000, kSynthetic);
  const PolicyEntry entry = calibrate(data, plan).entry;
  EXPECT_GT(entry.exit_rates(entry.policy).at(0), 0) << "nothing is tested where no text leaves there";
}

// The other losses and tasks, by a tenth of the splits.
TEST(CoverageOfCalibration, OtherLossesAndTasks) {
  const int count = std::max(15, splits() / 10);
  const ExitTrace mnli = read_trace(real_trace("mnli-exeunt.held")), stsb = read_trace(real_trace("stsb-exeunt.dev"));
  const auto holds = [&](std::string_view name, const Trial& trial, double most_cost) {
    const Coverage coverage = cover(name, trial, count);
    EXPECT_LE(coverage.violations, allowed(count)) << name;
    EXPECT_LT(coverage.mean_cost, most_cost) << name;
  };
  holds("MNLI, all families and exits, ltt-binomial", {mnli, {.max_drops = {0.05}, .delta = kDelta}, kReal, 0.05},
        0.99);
  holds("SST-2, ltt-hb", {sst2(), real_plan(0.03, RiskMethod::ltt_hb), kReal, 0.03}, 0.8);
  CalibrationPlan drop = real_plan(0.02, RiskMethod::wsr);
  drop.loss = RiskLoss::zero_one_drop;
  holds("SST-2, drop in accuracy, wsr", {sst2(), drop, {.fit = 0.08, .certify = 0.16}, 0.02}, 0.8);
  const CalibrationPlan number{.max_drops = {0.05}, .delta = kDelta, .range = {{0, 5}}};
  holds("STS-B, wsr", {stsb, number, {.fit = 0.15, .certify = 0.3}, 0.05}, 0.9);
}

}  // namespace
}  // namespace exeunt
