// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exeunt/certify/risk.h"

namespace exeunt {
namespace {

constexpr double kMaxDrop = 0.02, kAlpha = 0.001;

// How many runs to simulate; the long form sets more.
int simulated_runs() {
  const char* runs = std::getenv("EXEUNT_WATCH_RUNS");
  return runs == nullptr ? 60 : std::atoi(runs);
}

// A loss of 0 or 1 with this mean.
double draw(std::mt19937_64& random, double mean) {
  return std::uniform_real_distribution<>()(random) < mean ? 1 : 0;
}

TEST(RiskAlarm, SpendsTheLevelOverAllStarts) {
  RiskAlarm alarm(kMaxDrop, kAlpha);
  for (int i = 0; i < 1'000'000; ++i) alarm.record(kMaxDrop);  // every bet stays as it began: the shares alone add up
  EXPECT_LT(alarm.evidence(), 1);
  EXPECT_GT(alarm.evidence(), 0.8);
  EXPECT_FALSE(alarm.raised());
}

TEST(RiskAlarm, IsNotRaisedAtThePromisedRisk) {
  int raised = 0;
  for (int run = 0; run < simulated_runs(); ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    RiskAlarm alarm(kMaxDrop, kAlpha);
    for (int i = 0; i < 200'000 && !alarm.raised(); ++i) alarm.record(draw(random, kMaxDrop));
    raised += alarm.raised() ? 1 : 0;
  }
  // At most alpha by proof; three standard errors of a binomial on top.
  const double runs = simulated_runs();
  fmt::print("{} of {} runs of 200,000 losses at the promised risk raised an alarm\n", raised, runs);
  EXPECT_LE(raised, std::floor(runs * kAlpha + 3 * std::sqrt(runs * kAlpha)));
}

// Traffic that never changes: 70 % come from 5,000 common texts, by Zipf's law, which keep their answers; 30 % are new
// texts, of which 3.5 % change, so 1.05 % of the requests.
struct Traffic {
  std::discrete_distribution<size_t> common;
  std::mt19937_64 random;

  // A common text, or none: a new one.
  std::optional<size_t> draw_text() { return draw(random, 0.7) == 1 ? std::optional(common(random)) : std::nullopt; }
};

TEST(RiskAlarm, IsNotRaisedByRepeatsInStationaryTraffic) {
  std::vector<double> zipf;
  for (int text = 1; text <= 5000; ++text) zipf.push_back(1.0 / text);
  const auto raised_after = [&](int server, bool once) {
    Traffic traffic{.common = {zipf.begin(), zipf.end()}, .random = std::mt19937_64(static_cast<uint64_t>(server))};
    RiskAlarm alarm(kMaxDrop, kAlpha);
    std::vector<char> seen(5000);
    for (int i = 0; i < 200'000; ++i) {
      const std::optional<size_t> text = traffic.draw_text();
      if (once && text && std::exchange(seen[*text], 1) != 0) continue;
      alarm.record(text ? 0 : draw(traffic.random, 0.035));
    }
    return alarm.raised();
  };
  const int servers = std::min(simulated_runs(), 400);
  int raised = 0;
  for (int server = 0; server < servers; ++server) raised += raised_after(server, false) ? 1 : 0;
  fmt::print("{} of {} servers raised an alarm within 200,000 shadows\n", raised, servers);
  EXPECT_EQ(raised, 0);
  for (int server = 0; server < 5; ++server)
    EXPECT_TRUE(raised_after(server, true)) << "where a text counts once, the common ones drop out";
}

TEST(RiskAlarm, IsNotRaisedByFractionalLossesAtThePromisedRisk) {
  int raised = 0;
  for (int run = 0; run < simulated_runs(); ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    RiskAlarm alarm(kMaxDrop, kAlpha);
    for (int i = 0; i < 50'000 && !alarm.raised(); ++i)
      alarm.record(draw(random, 0.1) * std::uniform_real_distribution<>(0, 20 * kMaxDrop)(random));
    raised += alarm.raised() ? 1 : 0;
  }
  const double runs = simulated_runs();
  EXPECT_LE(raised, std::floor(runs * kAlpha + 3 * std::sqrt(runs * kAlpha)));
}

TEST(RiskAlarm, DetectsChangeAfterManyRowsWithoutLoss) {
  std::vector<int> delays;
  for (int run = 0; run < simulated_runs(); ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    RiskAlarm alarm(kMaxDrop, kAlpha);
    for (int i = 0; i < 100'000; ++i) alarm.record(draw(random, kMaxDrop / 2));
    ASSERT_FALSE(alarm.raised()) << run;
    int delay = 0;
    for (; !alarm.raised() && delay < 20'000; ++delay) alarm.record(draw(random, 2 * kMaxDrop));
    delays.push_back(delay);
  }
  std::nth_element(delays.begin(), delays.begin() + static_cast<int>(delays.size()) / 2, delays.end());
  fmt::print("from half the promised risk to twice it after 100,000 losses: median delay {} in {} runs\n",
             delays[delays.size() / 2], delays.size());
  EXPECT_LE(delays[delays.size() / 2], 3000);
}

TEST(RiskAlarm, RestoredAlarmContinuesUnchanged) {
  RiskAlarm whole(kMaxDrop, kAlpha);
  std::optional<RiskAlarm> part(std::in_place, kMaxDrop, kAlpha);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    if (i % 500 == 0) {
      const RiskAlarm::Memory memory = part->memory();
      part.emplace(kMaxDrop, kAlpha).restore(memory);
    }
    const double loss = draw(random, 2 * kMaxDrop);
    whole.record(loss);
    part->record(loss);
    ASSERT_EQ(part->evidence(), whole.evidence());
    ASSERT_EQ(part->raised(), whole.raised());
  }
  EXPECT_TRUE(whole.raised());
}

TEST(RiskAlarm, DetectsFractionalLosses) {
  RiskAlarm alarm(0.01, kAlpha);
  int delay = 0;
  for (; !alarm.raised() && delay < 10'000; ++delay) alarm.record(delay % 2 == 0 ? 0.05 : 0);  // 2.5 % on average
  EXPECT_LT(delay, 2000);  // Hoeffding's inequality over 5,000 losses would not see it
  alarm.record(0);
  EXPECT_TRUE(alarm.raised());  // and stays raised
}

// The mixture by the midpoint rule over q = sin² of an angle, which makes Beta(1/2, 1/2) uniform.
double log_mixture(double sum, double rest, double mean) {
  constexpr int kSteps = 20'000;
  double total = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double sine = std::sin((i + 0.5) / kSteps * std::numbers::pi / 2), q = sine * sine;
    total += std::exp(sum * std::log(q / mean) + rest * std::log((1 - q) / (1 - mean)));
  }
  return std::log(total / kSteps);
}

TEST(AnytimeUpperBound, IsWhereTheMixtureReachesTheLevel) {
  for (const auto& [sum, count] : std::vector<std::pair<double, int64_t>>{{0, 50}, {1, 100}, {7.25, 400}, {30, 3000}}) {
    const double bound = anytime_upper_bound(sum, count, 0.05);
    EXPECT_GT(bound, sum / static_cast<double>(count));
    EXPECT_NEAR(log_mixture(sum, static_cast<double>(count) - sum, bound), std::log(1 / 0.05), 1e-3) << count;
  }
}

TEST(AnytimeUpperBound, IsOneBeforeTheFirstLoss) {
  EXPECT_EQ(anytime_upper_bound(0, 0, 0.05), 1);
  EXPECT_EQ(anytime_upper_bound(10, 10, 0.05), 1);
  EXPECT_LT(anytime_upper_bound(0, 100'000, 0.05), 0.0002);
}

TEST(AnytimeUpperBound, HoldsAtAllTimesTogether) {
  int missed = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    double sum = 0;
    bool held = true;
    for (int i = 1; i <= 1000 && held; ++i) {
      sum += draw(random, kMaxDrop);
      held = anytime_upper_bound(sum, i, 0.1) >= kMaxDrop;
    }
    missed += held ? 0 : 1;
  }
  EXPECT_LE(missed, 0.1 * kRuns);
}

}  // namespace
}  // namespace exeunt
