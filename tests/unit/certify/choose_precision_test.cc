// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iostream>
#include <numeric>
#include <random>

#include "exeunt/base/parallel.h"
#include "exeunt/certify/certify_model.h"
#include "exeunt/certify/losses.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/certify/made_population.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

// `trace` as another precision might have it: each text's answers turned round with this probability.
ExitTrace disturbed(ExitTrace trace, double share, uint32_t seed) {
  std::mt19937 random(seed);
  const auto exits = static_cast<size_t>(trace.exits), width = static_cast<size_t>(trace.width);
  for (size_t row = 0; row < trace.rows; ++row) {
    if (std::generate_canonical<double, 32>(random) >= share) continue;
    for (size_t exit = 0; exit < exits; ++exit) {
      float* logits = &trace.logits[(row * exits + exit) * width];
      std::rotate(logits, logits + 1, logits + width);
    }
  }
  return trace;
}

const PrecisionSetting kBf16{Precision::bf16}, kInt8{Precision::int8};

// A choice between made-up precisions: how many answers each changes, and how long a layer takes in it.
struct Made {
  ExitTrace fp32 = random_trace({.rows = 400, .exits = 4, .classes = 3});
  std::map<Precision, double> changes = {}, layer_ms = {{Precision::fp32, 4}};
  CalibrationPlan calibration = {.max_drops = {0.05}, .families = {"entropy"}};
  std::function<Exceptions(const PrecisionSetting&, const ExitTrace&, double)> keep_wider = {};
  std::optional<PrecisionSetting> in_force = {};
  std::map<Precision, double> exits_ms = {};  // that exits take themselves
  std::optional<double> narrow_poolers = {};  // try them in int8: how many times as long everything takes then
  size_t certify_rows = 1000;

  [[nodiscard]] PrecisionChoice choose(const std::vector<PrecisionSetting>& candidates) const {
    const CalibrationData parts{.fit = fp32,
                                .certify = random_trace({.rows = certify_rows, .exits = 4, .classes = 3, .seed = 2}),
                                .report = {}};
    return choose_precision(
        parts, {.calibration = calibration,
                .candidates = candidates,
                .in_force = in_force,
                .trace =
                    [&](const PrecisionSetting& setting) {
                      const double share = setting.exceptions.empty() ? changes.at(setting.precision) : 0;
                      return disturbed(fp32, share, static_cast<uint32_t>(setting.precision));
                    },
                .milliseconds =
                    [&](const PrecisionSetting& setting, const PolicySpec& policy, const ExitTrace&) {
                      const double share = setting.exceptions.contains(kPoolers) ? narrow_poolers.value() : 1;
                      const auto exits = exits_ms.find(setting.precision);
                      return share * layer_ms.at(setting.precision) *
                                 LossMeter(fp32, RiskLoss::disagreement, {}).measure(policy).cost_fraction +
                             (policy == PolicySpec{} || exits == exits_ms.end() ? 0 : exits->second);
                    },
                .keep_wider = keep_wider,
                .poolers = narrow_poolers.has_value()});
  }
};

TEST(ChoosePrecision, ChoosesFastestWithinMaxDrop) {
  Made made;
  made.changes = {{Precision::bf16, 0}, {Precision::int8, 0.005}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::bf16, 2}, {Precision::int8, 1}};
  const PrecisionChoice choice = made.choose({kBf16, kInt8});
  EXPECT_EQ(choice.chosen().setting, kInt8);
  ASSERT_EQ(choice.trials.size(), 3U);
  EXPECT_EQ(choice.trials[0].changed, 0);
  EXPECT_GT(choice.trials[2].changed, 0);
  EXPECT_EQ(choice.fit.reference.size(), made.fp32.rows * 3);
  EXPECT_NE(choice.fit.logits, made.fp32.logits);

  made.changes[Precision::int8] = 0.2;  // more than may be lost, even at full depth
  const PrecisionChoice other = made.choose({kBf16, kInt8});
  EXPECT_EQ(other.chosen().setting, kBf16);
  EXPECT_TRUE(std::isinf(other.trials[2].expected_ms));
}

TEST(ChoosePrecision, KeepsFp32WithoutSpeedUp) {
  Made made;
  made.changes = {{Precision::bf16, 0}, {Precision::int8, 0.2}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::bf16, 3.9}, {Precision::int8, 1}};
  const PrecisionChoice choice = made.choose({kBf16, kInt8});
  EXPECT_EQ(choice.chosen().setting, PrecisionSetting{});
  EXPECT_EQ(choice.fit.logits, made.fp32.logits);
}

// Clocks differ between runs of one command, which must not become another try for that.
TEST(ChoosePrecision, KeepsTheCertifiedSettingUnlessAnotherIsMuchFaster) {
  Made made;
  made.changes = {{Precision::bf16, 0}, {Precision::int8, 0}};
  const auto chosen = [&](double bf16_ms, double int8_ms, std::optional<PrecisionSetting> in_force) {
    made.layer_ms = {{Precision::fp32, 4}, {Precision::bf16, bf16_ms}, {Precision::int8, int8_ms}};
    made.in_force = std::move(in_force);
    return made.choose({kBf16, kInt8}).chosen().setting;
  };
  EXPECT_EQ(chosen(3, 2.6, {}), kInt8);
  EXPECT_EQ(chosen(3, 2.6, kBf16), kBf16);
  EXPECT_EQ(chosen(3, 2, kBf16), kInt8);
  EXPECT_EQ(chosen(3.5, 4.2, kInt8), kInt8);
  EXPECT_EQ(chosen(3, 4.2, kInt8), kBf16);
  EXPECT_EQ(chosen(3.3, 4.5, PrecisionSetting{}), PrecisionSetting{});
}

TEST(ChoosePrecision, WeighsTheChanceToFailAgainstWhatRunsThen) {
  Made made;
  made.fp32 = random_trace({.rows = 24, .exits = 4, .classes = 3});
  made.certify_rows = 72;  // 5 % is certified only without a loss
  made.changes = {{Precision::bf16, 0}, {Precision::int8, 0}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::bf16, 3}, {Precision::int8, 1}};
  double no_loss = 1;  // of 72 after none of 24: each row in turn, given those before
  for (int row = 0; row < 72; ++row) no_loss *= (24.5 + row) / (25 + row);
  const PrecisionChoice fast = made.choose({kBf16, kInt8});
  EXPECT_EQ(fast.chosen().setting, kInt8);
  EXPECT_NEAR(fast.chosen().chance, no_loss, 1e-9);
  const double bf16_full = no_loss * 3 + (1 - no_loss) * 4;
  EXPECT_NEAR(fast.chosen().expected_ms, no_loss * fast.chosen().milliseconds + (1 - no_loss) * bf16_full, 1e-9);

  made.layer_ms[Precision::int8] = 3.7;
  EXPECT_EQ(made.choose({kInt8}).chosen().setting, PrecisionSetting{}) << "gains too little to be worth the risk";
}

// 95 rows allow a loss at 5 % for one budget, and none where it has 0.8 of delta.
TEST(ChoosePrecision, BudgetsShareDelta) {
  Made made;
  made.certify_rows = 95;
  made.changes = {{Precision::int8, 0}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::int8, 1}};
  double no_loss = 1;
  for (int row = 0; row < 95; ++row) no_loss *= (400.5 + row) / (401 + row);
  EXPECT_GT(made.choose({kInt8}).trials[1].chance, no_loss + 0.05);
  made.calibration.max_drops = {0.05, 0.1};
  EXPECT_NEAR(made.choose({kInt8}).trials[1].chance, no_loss, 1e-9);
}

TEST(ChoosePrecision, KeepsMatricesWiderIfInt8ExceedsMaxDrop) {
  Made made;
  made.changes = {{Precision::int8, 0.2}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::int8, 1}};
  double asked = 0;
  made.keep_wider = [&](const PrecisionSetting& setting, const ExitTrace& fp32, double most) {
    EXPECT_EQ(setting, kInt8);
    EXPECT_EQ(fp32.rows, made.fp32.rows);
    asked = most;
    return Exceptions{{"layer.0.ffn2", Precision::bf16}};
  };
  const PrecisionChoice choice = made.choose({kInt8});
  EXPECT_DOUBLE_EQ(asked, 0.25 * 0.05);
  EXPECT_EQ(str(choice.chosen().setting), "int8 with 1 matrix in bf16");

  made.changes = {{Precision::int8, 0}};
  made.keep_wider = [](const PrecisionSetting&, const ExitTrace&, double) -> Exceptions {
    ADD_FAILURE() << "nothing to mend";
    return {};
  };
  EXPECT_EQ(made.choose({kInt8}).chosen().setting, kInt8);
  made.changes = {{Precision::int8, 0.2}};
  const PrecisionSetting mapped{Precision::int8, {{"layer.1.ffn2", Precision::bf16}}};
  EXPECT_EQ(made.choose({mapped}).chosen().setting, mapped) << "a map that is there already is taken as it is";
}

TEST(ChoosePrecision, ChoosesInt8PoolersIfFaster) {
  Made made;
  made.changes = {{Precision::bf16, 0}, {Precision::int8, 0}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::bf16, 2}, {Precision::int8, 1}};
  made.narrow_poolers = 0.9;
  const PrecisionChoice choice = made.choose({kBf16, kInt8});
  EXPECT_EQ(str(choice.chosen().setting), "int8, poolers in int8");
  EXPECT_EQ(choice.trials.size(), 4U) << "none in bf16";

  made.narrow_poolers = 0.99;
  EXPECT_EQ(made.choose({kInt8}).chosen().setting, kInt8);

  made.narrow_poolers = 0.9;
  const PrecisionSetting mapped{Precision::int8, {{"layer.1.ffn2", Precision::bf16}}};
  EXPECT_EQ(str(made.choose({mapped}).chosen().setting), "int8 with 1 matrix in bf16, poolers in int8");
}

// They are left out in the end, so that full depth is what runs.
TEST(ChoosePrecision, CountsFullDepthWhereExitsAreSlower) {
  Made made;
  made.calibration.max_drops = {0.4};
  made.changes = {{Precision::int8, 0}};
  made.layer_ms = {{Precision::fp32, 4}, {Precision::int8, 1}};
  made.exits_ms = {{Precision::int8, 5}};
  const PrecisionChoice choice = made.choose({kInt8});
  EXPECT_EQ(choice.chosen().setting, kInt8);
  EXPECT_NE(str(choice.chosen().family.expected.front()), "full");
  EXPECT_EQ(choice.chosen().milliseconds, 1);
}

// What was chosen, and turned out on the certify part to lose more than may be lost.
class RefutedChoice : public ::testing::Test {
 protected:
  RefutedChoice() {
    ::setenv("XDG_STATE_HOME", scratch_.path().c_str(), 1);
    observer_.notice = [this](const std::string& text) { said_.push_back(text); };
  }
  // The parts of `rows` texts in fp32, and as int8 would answer them: otherwise for this share of them. With bf16
  // tested before it, if that has a share.
  [[nodiscard]] CertifiedChoice certify(size_t rows, double changed, std::optional<double> by_bf16 = {}) {
    const CalibrationData fp32 = split_for_calibration(random_trace({.rows = rows, .exits = 4, .classes = 3}), 1);
    const auto with_reference = [&](double share, std::string_view precision) {
      CalibrationData data = fp32;
      uint32_t seed = 7;
      for (ExitTrace* part : {&data.fit, &data.certify, &data.report}) {
        const ExitTrace exact = *part;
        *part = disturbed(exact, share, ++seed);
        part->info.precision = precision;
        set_reference(*part, exact);
      }
      return data;
    };
    std::vector<CertifyStep> steps{{{}, [&] { return with_reference(0, "fp32"); }}};
    if (by_bf16) steps.push_back({kBf16, [&] { return with_reference(*by_bf16, "bf16"); }});
    steps.push_back({kInt8, [&] { return with_reference(changed, "int8"); }});
    return certify_choice(steps, {.max_drops = {0.05}, .families = {"entropy"}}, observer_);
  }

  Scratch scratch_;
  Observer observer_;
  std::vector<std::string> said_;
};

TEST_F(RefutedChoice, IsKeptIfFullDepthPasses) {
  const CertifiedChoice choice = certify(2000, 0.005);
  EXPECT_EQ(choice.setting, kInt8);
  EXPECT_EQ(choice.calibration.entry.certificate->tries, 1);
  EXPECT_TRUE(said_.empty());
}

TEST_F(RefutedChoice, FallsBackToFp32WithTheDeltaOfAnotherTry) {
  const CertifiedChoice choice = certify(2000, 0.3);
  EXPECT_EQ(choice.setting, PrecisionSetting{});
  EXPECT_EQ(choice.data.certify.info.precision, "fp32");
  EXPECT_EQ(choice.calibration.entry.certificate->tries, 2);
  EXPECT_EQ(choice.calibration.entry.certificate->reference, LossReference::fp32);
  EXPECT_NE(choice.calibration.entry.policy, PolicySpec{}) << "exits pass a second test on this many rows";
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_THAT(said_[0], testing::HasSubstr("int8 was chosen, but int8 at full depth does not keep 5 %"));
  EXPECT_THAT(said_[0], testing::HasSubstr("fp32 is certified instead"));
}

TEST_F(RefutedChoice, FallsBackToFullDepthInThePrecisionTestedBefore) {
  const CertifiedChoice choice = certify(150, 0.3, 0);
  EXPECT_EQ(choice.setting, kBf16) << "which passed on the same rows, though they are too few for a second try";
  EXPECT_EQ(choice.data.certify.info.precision, "bf16");
  EXPECT_EQ(choice.calibration.entry.policy, PolicySpec{});
  EXPECT_EQ(choice.calibration.entry.certificate->reference, LossReference::fp32);
}

TEST_F(RefutedChoice, EndsWhereAWiderPrecisionFails) {
  const CertifiedChoice choice = certify(2000, 0, 0.3);
  EXPECT_EQ(choice.setting, PrecisionSetting{}) << "int8 would pass, but its turn does not come";
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_THAT(said_[0], testing::HasSubstr("int8 was chosen, but bf16 at full depth does not keep 5 %"));
}

TEST_F(RefutedChoice, FallsBackToFullDepthWithTooFewRowsForAnotherTry) {
  const CertifiedChoice choice = certify(150, 0.3);
  EXPECT_EQ(choice.setting, PrecisionSetting{});
  EXPECT_EQ(choice.calibration.entry.policy, PolicySpec{});
  ASSERT_TRUE(choice.calibration.entry.certificate) << "full depth in fp32 differs from itself nowhere";
  EXPECT_EQ(choice.calibration.entry.certificate->losses, 0);
}

// Many precisions, none of which keeps the promise, though each passes its test now and then. One that is chosen on the
// fit part passes as seldom as any; the fastest of those that pass breaks the promise far more often.
class CoverageOfPrecisions : public ::testing::Test {
 protected:
  static constexpr double kDelta = 0.1, kMaxDrop = 0.05;
  static constexpr int kDraws = 2000;
  static constexpr size_t kPrecisionsTried = 6;

  static const ExitTrace& fp32() {
    static const ExitTrace trace = random_trace({.rows = 6000, .exits = 2, .classes = 3});
    return trace;
  }
  static const std::vector<ExitTrace>& others() {
    static const std::vector<ExitTrace> traces = [] {
      std::vector<ExitTrace> made;
      for (uint32_t k = 0; k < kPrecisionsTried; ++k) {
        made.push_back(disturbed(fp32(), kMaxDrop + 0.003, k));
        set_reference(made.back(), fp32());
      }
      return made;
    }();
    return traces;
  }
  static CalibrationPlan plan() { return {.max_drops = {kMaxDrop}, .delta = kDelta, .families = {"entropy"}}; }

  // Data with the rows of `parts` from one of the others.
  static CalibrationData in(const ExitTrace& precision, const CalibrationData& parts) {
    CalibrationData data = parts;
    for (ExitTrace* part : {&data.fit, &data.certify, &data.report}) {
      const std::vector<size_t> rows(part->index.begin(), part->index.end());
      *part = select_rows(precision, rows);
    }
    return data;
  }

  static bool broken(const ExitTrace& precision, const PolicySpec& policy) {
    const std::vector<double> losses = LossMeter(precision, RiskLoss::disagreement, {}).measure(policy).losses;
    return std::accumulate(losses.begin(), losses.end(), 0.0) > kMaxDrop * static_cast<double>(losses.size());
  }

  // Calibrated in one of the others; nothing = it failed its test.
  static std::optional<PolicySpec> certified(const CalibrationData& data) {
    try {
      return calibrate(data, plan()).entry.complete();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::failure) << error.what();
      return std::nullopt;
    }
  }

  // Whether the promise is broken if the precision is chosen on the fit part.
  static bool broken_by_fit(const CalibrationData& parts) {
    std::vector<PrecisionSetting> candidates;
    for (size_t k = 0; k < kPrecisionsTried; ++k)
      candidates.push_back({Precision::int8, {{fmt::format("{}", k), Precision::bf16}}});
    const auto number = [](const PrecisionSetting& setting) {
      return static_cast<size_t>(std::stoi(setting.exceptions.begin()->first));
    };
    const PrecisionChoice choice = choose_precision(
        parts, {.calibration = plan(),
                .candidates = candidates,
                .trace = [&](const PrecisionSetting& setting) { return in(others()[number(setting)], parts).fit; },
                .milliseconds = [](const PrecisionSetting& setting, const PolicySpec&,
                                   const ExitTrace&) { return setting.exceptions.empty() ? 2.0 : 1.0; }});
    if (choice.best == 0) return false;  // fp32 at full depth at least
    const ExitTrace& chosen = others()[number(choice.chosen().setting)];
    const std::optional<PolicySpec> policy = certified(in(chosen, parts));
    return policy && broken(chosen, *policy);
  }

  // The same if it is the first that passes its test.
  static bool broken_by_test(const CalibrationData& parts) {
    for (const ExitTrace& other : others()) {
      const std::optional<PolicySpec> policy = certified(in(other, parts));
      if (policy) return broken(other, *policy);
    }
    return false;
  }

  static double share(bool (*is_broken)(const CalibrationData&)) {
    std::vector<char> broke(kDraws);
    parallel_for(kDraws, 2, [&](int64_t draw) {
      const auto seed = static_cast<uint64_t>(5000 + draw);
      broke[static_cast<size_t>(draw)] =
          is_broken(split_for_calibration(fp32(), seed, {.fit = 0.02, .certify = 0.06})) ? 1 : 0;
    });
    return static_cast<double>(std::count(broke.begin(), broke.end(), 1)) / kDraws;
  }
};

TEST_F(CoverageOfPrecisions, PrecisionChosenOnFitPartKeepsConfidence) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "thousands of draws that share nothing: minutes under the thread sanitizer";
#endif
  const double allowed = kDelta + 3 * std::sqrt(kDelta * (1 - kDelta) / kDraws);
  (void)others();
  const double by_fit = share(&broken_by_fit), by_test = share(&broken_by_test);
  std::cout << fmt::format(
      "  {} draws, {} precisions: {:.1f} % broken if chosen on the fit part, {:.1f} % if by test\n", kDraws,
      kPrecisionsTried, 100 * by_fit, 100 * by_test);
  EXPECT_LE(by_fit, allowed);
  EXPECT_GT(by_test, allowed) << "a population in which it matters";
}

// What is certified where exits save one layer of two for this share of the texts, with these times of full depth in
// fp32, full depth in the chosen precision, and the budgets' exits.
CertifiedChoice timed_choice(double share, const RunTimes& times, std::vector<double> max_drops = {0.02}) {
  const MadePopulation population{.kinds = {{.share = share}, {.share = 1 - share, .changed = 0.5}}, .level = {0, 4}};
  const CalibrationPlan plan{.max_drops = std::move(max_drops), .families = {"entropy"}, .temperatures = false};
  CertifiedChoice choice{.data = split_for_calibration(population.draw(3000, 1), 1), .times = times};
  choice.calibration = calibrate(choice.data, plan);
  EXPECT_NE(str(choice.calibration.entry.policy), "full");
  EXPECT_NEAR(choice.calibration.outcomes.front().report_cost, 1 - share / 2, 0.02);
  choice.calibration.entry.certificate->tries = 3;
  drop_slow_exits(choice, times, plan);
  return choice;
}

TEST(DropSlowExits, TakesFullDepthWhereExitsAreSlower) {
  for (const double share : {0.05, 0.5}) {
    const CertifiedChoice slower = timed_choice(share, {.milliseconds = {10, 4, 5}, .steady = true});
    EXPECT_EQ(str(slower.calibration.entry.policy), "full") << "however many layers are saved";
    ASSERT_TRUE(slower.calibration.entry.certificate) << "full depth is in the tested sequence";
    EXPECT_EQ(slower.calibration.entry.certificate->tries, 3) << "and is no other try";
    EXPECT_EQ(slower.calibration.outcomes.front().report_cost, 1);
    EXPECT_THAT(slower.times.milliseconds, testing::ElementsAre(10, 4, 4));
    EXPECT_EQ(slower.speedup()->exits, 1);
  }
}

TEST(DropSlowExits, JudgesEachBudgetByItself) {
  const auto policies = [](const RunTimes& times) {
    const CertifiedChoice choice = timed_choice(0.5, times, {0.02, 0.4});
    const PolicyEntry& entry = choice.calibration.entry;
    std::vector<bool> full;
    for (size_t i = 0; i < 2; ++i) {
      full.push_back(str(entry.points.at(i).policy) == "full");
      EXPECT_EQ(str(choice.calibration.outcomes.at(i).policy) == "full", full.back());
      EXPECT_EQ(entry.points[i].exit_rates.size(), entry.exits.size());
      EXPECT_TRUE(!full.back() || entry.points[i].exit_rates == std::vector<float>({0, 1}));
    }
    EXPECT_EQ(entry.policy, entry.points.front().policy) << "which runs";
    EXPECT_EQ(entry.certificate->exits.size() == 1, full.front()) << "of what runs";
    return full;
  };
  EXPECT_THAT(policies({.milliseconds = {10, 4, 5, 3}, .steady = true}), testing::ElementsAre(true, false));
  EXPECT_THAT(policies({.milliseconds = {10, 4, 3, 5}, .steady = true}), testing::ElementsAre(false, true));
}

TEST(DropSlowExits, KeepsExitsThatAreFasterOrCannotBeTimed) {
  const auto kept = [](double share, const RunTimes& times) {
    const CertifiedChoice choice = timed_choice(share, times);
    return str(choice.calibration.entry.policy) != "full" && choice.times.milliseconds == times.milliseconds;
  };
  EXPECT_TRUE(kept(0.05, {.milliseconds = {10, 4, 3.9}, .steady = true}));
  EXPECT_TRUE(kept(0.05, {.milliseconds = {10, 4, 5}, .steady = false})) << "too busy to tell";
}

// The first line that attach, calibrate and train end with.
TEST(Verdict, NamesNoFactorBelowOne) {
  const auto verdict = [](const PrecisionSetting& setting, bool exits, const RunTimes& times) {
    CertifiedChoice choice{.setting = setting, .times = times};
    choice.calibration.entry.exits = {1, 2};
    choice.calibration.outcomes.emplace_back().report_cost = exits ? 0.8 : 1;
    if (exits) choice.calibration.entry.policy = parse_policy("entropy:0.2");
    return verdict_of(choice);
  };
  const auto steady = [](std::vector<double> ms) { return RunTimes{.milliseconds = std::move(ms), .steady = true}; };
  const PrecisionSetting fp32;
  EXPECT_EQ(verdict(kInt8, true, steady({10, 5, 2.5})),
            "4.0 times faster than fp32 at full depth: 2.0 by int8, 2.0 by exits after 1, 2");
  EXPECT_EQ(verdict(kInt8, false, steady({10, 4, 4})),
            "2.5 times faster than fp32 at full depth, by int8 alone: every text runs all layers");
  EXPECT_EQ(verdict(fp32, true, steady({10, 10, 5})), "2.0 times faster than fp32 at full depth, by exits after 1, 2");
  EXPECT_EQ(verdict(fp32, false, steady({10, 8, 8})), "not faster: fp32, every text runs all layers");
  EXPECT_EQ(verdict(fp32, true, steady({10, 10, 12.5})), "not faster: fp32, exits after 1, 2");
  EXPECT_EQ(verdict(kInt8, true, steady({10, 8, 9.7})), "not faster: int8, exits after 1, 2");
  for (const double full : {4.0, 12.0})  // slow exits, by times of a profile that decided; a slow precision
    EXPECT_EQ(verdict(kInt8, true, steady({10, full, 5})),
              "2.0 times faster than fp32 at full depth: int8, exits after 1, 2");
  EXPECT_EQ(verdict(kInt8, true, {.milliseconds = {10, 4, 5}, .steady = false}),
            "int8, exits after 1, 2; the machine is too busy to tell how much faster that is");
  EXPECT_EQ(verdict(fp32, true, {}), "1.25 times fewer layers: exits after 1, 2");
}

}  // namespace
}  // namespace exeunt
