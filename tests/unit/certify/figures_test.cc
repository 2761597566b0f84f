// SPDX-License-Identifier: Apache-2.0
// The figures of docs/methods.md: how many layers a certified policy runs that was calibrated on few rows. Draws are
// from traces of real models, each taken whole as a population whose true risk is known. EXEUNT_DRAWS sets how many.
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "exeunt/base/parallel.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/losses.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

struct Figure {
  double layers = 0, violations = 0, full_depth = 0;  // means over the draws
};

// Rows drawn without replacement.
ExitTrace drawn(const ExitTrace& population, size_t rows, uint64_t seed) {
  std::vector<size_t> places(population.rows);
  std::iota(places.begin(), places.end(), size_t{0});
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < rows; ++i) std::swap(places[i], places[i + random() % (places.size() - i)]);
  return select_rows(population, std::span(places).first(rows));
}

Figure figure_of(const std::string& name, RiskLoss loss, size_t rows) {
  const char* text = std::getenv("EXEUNT_DRAWS");
  const int draws = text != nullptr ? std::atoi(text) : 100;
  const ExitTrace population = read_trace(real_trace(name));
  const CalibrationPlan plan{.max_drops = {0.02}, .loss = loss, .tries = 1};
  std::vector<double> layers(static_cast<size_t>(draws)), over(layers.size()), full(layers.size());
  parallel_for(2, 2, [&](int64_t half) {
    LossMeter truth(population, loss, {});
    for (auto draw = static_cast<size_t>(half); draw < layers.size(); draw += 2) {
      const ExitTrace trace = drawn(population, rows, draw);
      const CalibrationData data = split_for_calibration(trace, draw, shares_for(trace, plan, {}));
      const LossMeter::Measured measured = truth.measure(calibrate(data, plan).entry.complete());
      layers[draw] = measured.cost_fraction * population.info.layers.back();
      over[draw] = measured.mean_loss() > 0.02 ? 1 : 0;
      full[draw] = measured.cost_fraction == 1 ? 1 : 0;
    }
  });
  const auto mean = [&](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / draws;
  };
  const Figure figure{mean(layers), mean(over), mean(full)};
  std::cout << fmt::format(
      "  {}, {}, 2 %, {} rows: {:.2f} layers, {:.1f} % of {} draws over the budget, {:.1f} % at full depth\n", name,
      name_of(loss), rows, figure.layers, 100 * figure.violations, draws, 100 * figure.full_depth);
  EXPECT_LE(figure.violations, 0.05 + 3 * std::sqrt(0.05 * 0.95 / draws)) << name;
  return figure;
}

TEST(Figures, LayersOfFewChangedAnswers) {
  EXPECT_LE(figure_of("mnli-exeunt.held", RiskLoss::disagreement, 500).layers, 7.2);
  EXPECT_LE(figure_of("sst2-exeunt.held", RiskLoss::disagreement, 500).layers, 2.5);
  EXPECT_LE(figure_of("mnli-exeunt.held", RiskLoss::disagreement, 1000).layers, 6.9);
  EXPECT_LE(figure_of("sst2-exeunt.held", RiskLoss::disagreement, 1000).layers, 2.2);
  EXPECT_LE(figure_of("sst2-elasticbert.held", RiskLoss::disagreement, 1000).layers, 4.35);
}

TEST(Figures, LayersOfASmallDropInAccuracy) {
  const Figure mnli = figure_of("mnli-exeunt.held", RiskLoss::zero_one_drop, 1000);
  EXPECT_LE(mnli.layers, 6.7);
  EXPECT_LT(mnli.full_depth, 0.01);
  const Figure sst2 = figure_of("sst2-exeunt.held", RiskLoss::zero_one_drop, 1000);
  EXPECT_LE(sst2.layers, 2.2);
  EXPECT_LT(sst2.full_depth, 0.01);
}

}  // namespace
}  // namespace exeunt
