// SPDX-License-Identifier: Apache-2.0
// The figures of docs/methods.md: how many layers a certified policy runs that was calibrated on 1,000 rows. Draws are
// from traces of real models, each taken whole as a population whose true risk is known. EXEUNT_DRAWS sets how many.
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

struct Figure {
  double layers = 0, violations = 0;
};

Figure figure_of(const std::string& name, RiskLoss loss) {
  const char* text = std::getenv("EXEUNT_DRAWS");
  const int draws = text != nullptr ? std::atoi(text) : 100;
  const ExitTrace population = read_trace(real_trace(name));
  const CalibrationPlan plan{.max_drops = {0.02}, .delta = 0.05 * 0.9, .loss = loss, .families = {"entropy"}};
  const double share = 1000.0 / static_cast<double>(population.rows);
  std::vector<double> layers(static_cast<size_t>(draws)), over(layers.size());
  parallel_for(2, 2, [&](int64_t half) {
    LossMeter truth(population, loss, {});
    for (auto draw = static_cast<size_t>(half); draw < layers.size(); draw += 2) {
      // Fit and certify 1,000 rows in all; the rest is left alone.
      const CalibrationData data =
          split_for_calibration(population, 100 + draw, {.fit = 0.2 * share, .certify = 0.8 * share});
      const LossMeter::Measured measured = truth.measure(calibrate(data, plan).entry.complete());
      layers[draw] = measured.cost_fraction * population.info.layers.back();
      const double risk = std::accumulate(measured.losses.begin(), measured.losses.end(), 0.0);
      over[draw] = risk / static_cast<double>(population.rows) > 0.02 ? 1 : 0;
    }
  });
  const auto mean = [&](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / draws;
  };
  const Figure figure{mean(layers), mean(over)};
  std::cout << fmt::format("  {}, {}, 2 %, 1,000 rows: {:.2f} layers, {:.1f} % of {} draws over the budget\n", name,
                           name_of(loss), figure.layers, 100 * figure.violations, draws);
  EXPECT_LE(figure.violations, 0.05 + 3 * std::sqrt(0.05 * 0.95 / draws)) << name;
  return figure;
}

TEST(Figures, PolicyLayersOfAThousandRows) {
  EXPECT_LE(figure_of("mnli-exeunt.held", RiskLoss::disagreement).layers, 6.9);
  EXPECT_LE(figure_of("sst2-exeunt.held", RiskLoss::disagreement).layers, 2.4);
  EXPECT_LE(figure_of("sst2-elasticbert.held", RiskLoss::disagreement).layers, 4.35);
}

}  // namespace
}  // namespace exeunt
