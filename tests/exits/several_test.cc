// SPDX-License-Identifier: Apache-2.0
// Several labels at once: evidence, replay, losses, temperatures and files, against sums over all sets of labels.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/exits/calibrate.h"
#include "exeunt/exits/losses.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/replay.h"
#include "exeunt/exits/temperature.h"
#include "tests/exits/traces.h"
#include "tests/scratch.h"

namespace exeunt {
namespace {

Reading several(const std::vector<float>& logits, const std::vector<float>& cuts = {}, float temperature = 1) {
  return {logits.data(), static_cast<int>(logits.size()), temperature, 0, true, cuts.empty() ? nullptr : cuts.data()};
}

// Each exit is surer than the one before; every label is given to about half of the rows.
ExitTrace set_trace(size_t rows, int labels, unsigned seed = 1) {
  ExitTrace trace = random_trace({.rows = rows, .exits = 4, .classes = labels, .seed = seed});
  trace.info.several = true;
  std::mt19937 random(seed);
  std::normal_distribution<float> noise;
  trace.gold.clear();
  trace.logits.clear();
  for (size_t row = 0; row < rows; ++row) {
    std::vector<float> sides;
    for (int c = 0; c < labels; ++c) sides.push_back(random() % 2 == 0 ? 1.0F : -1.0F);
    for (int exit = 1; exit <= trace.exits; ++exit)
      for (int c = 0; c < labels; ++c)
        trace.logits.push_back(noise(random) + 2 * static_cast<float>(exit) * sides[static_cast<size_t>(c)]);
    for (const float side : sides) trace.gold.push_back(side > 0 ? 1 : 0);
  }
  check_trace(trace, "made");
  return trace;
}

// The probabilities of all sets of labels, the labels being independent.
std::vector<double> all_sets(const std::vector<float>& logits, const std::vector<float>& cuts, double temperature) {
  std::vector<double> out{1};
  for (size_t c = 0; c < logits.size(); ++c) {
    const double p = 1 / (1 + std::exp(-(static_cast<double>(logits[c]) - (cuts.empty() ? 0 : cuts[c])) / temperature));
    std::vector<double> next;
    for (const double set : out) {
      next.push_back(set * (1 - p));
      next.push_back(set * p);
    }
    out = next;
  }
  return out;
}

TEST(SeveralLabels, EvidenceIsThatOfTheDistributionOverSets) {
  const std::vector<float> logits{1.5F, -0.3F, 0.2F, -4};
  for (const std::vector<float>& cuts : {std::vector<float>{}, std::vector<float>{0.5F, -1, 0, 1}}) {
    for (const float temperature : {1.0F, 2.5F}) {
      const Evidence e = weigh(several(logits, cuts, temperature));
      const std::vector<double> sets = all_sets(logits, cuts, temperature);
      double entropy = 0, squares = 0;
      for (const double p : sets) {
        entropy -= p * std::log(p);
        squares += p * p;
      }
      EXPECT_NEAR(e.entropy, entropy, 1e-5);
      EXPECT_NEAR(e.nentropy, entropy / (4 * std::log(2.0)), 1e-5);
      EXPECT_NEAR(e.impurity, 1 - squares, 1e-5);
      EXPECT_NEAR(e.confidence, *std::max_element(sets.begin(), sets.end()), 1e-5);
    }
  }
  const Evidence e = weigh(several({3, -0.2F}));
  const double p = 1 / (1 + std::exp(-0.2));
  EXPECT_NEAR(e.margin, 2 * p - 1, 1e-5) << "of the label that is least certain";
  EXPECT_NEAR(e.first, 1 / (1 + std::exp(-3.0)), 1e-6);
  EXPECT_EQ(e.value, 3);
}

TEST(SeveralLabels, HugeLogitsGiveNumbersNotNaN) {
  for (const std::vector<float>& logits : {std::vector<float>{3e38F, -3e38F}, {0, 0}, {500, -500}, {1e-45F, -1e-45F}}) {
    const Evidence e = weigh(several(logits));
    for (const float value : {e.entropy, e.nentropy, e.impurity, e.confidence, e.margin, e.least})
      EXPECT_TRUE(std::isfinite(value) && value >= 0);
  }
}

TEST(SeveralLabels, AThresholdDecidesWhichAreGiven) {
  const std::vector<float> logits{0.1F, 0.1F, -2};
  const std::vector<float> cuts{cut_of(0.3), cut_of(0.6), cut_of(0.05)};
  const Reading reading = several(logits, cuts);
  EXPECT_TRUE(has_label(reading.logits, reading.cuts, 0));
  EXPECT_FALSE(has_label(reading.logits, reading.cuts, 1));
  EXPECT_TRUE(has_label(reading.logits, reading.cuts, 2));
  std::vector<float> shown(3);
  probabilities(reading, shown.data());
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(shown[c], 1 / (1 + std::exp(-logits[c])), 1e-6) << "thresholds do not change what is shown";
    EXPECT_EQ(shown[c] > threshold_of(cuts[c]), has_label(reading.logits, reading.cuts, static_cast<int>(c)));
  }
  for (const double threshold : {0.5, 0.3, 0.123456, 0.000001, 0.999999})
    EXPECT_EQ(threshold_of(cut_of(threshold)), threshold);
}

TEST(SeveralLabels, SetsThatDifferInOneLabelHaveDifferentNumbers) {
  std::vector<float> logits(200, -1);
  std::vector<int> numbers{set_number(several(logits))};
  for (float& logit : logits) {
    logit = 1;
    numbers.push_back(set_number(several(logits)));
    EXPECT_EQ(numbers.back(), answer_number(several(logits)));
    EXPECT_LT(numbers.back(), 1 << 24) << "exact in a float";
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

TEST(SeveralLabels, ADivergenceIsZeroWhereNothingChangedAndKnownWhereOneLabelDid) {
  std::vector<float> memory(static_cast<size_t>(memory_floats(2)), 0.0F);
  EXPECT_TRUE(std::isinf(weigh(several({2, -1}), memory.data()).shift));
  EXPECT_EQ(weigh(several({2, -1}), memory.data()).shift, 0);
  const double before = 1 / (1 + std::exp(1.0)), after = 1 / (1 + std::exp(-1.0)), mean = (before + after) / 2;
  const auto kl = [](double p, double q) { return p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q)); };
  EXPECT_NEAR(weigh(several({2, 1}), memory.data()).shift, (kl(before, mean) + kl(after, mean)) / 2, 1e-5);
}

TEST(SeveralLabels, ALossIsAnyLabelThatDiffers) {
  const ExitTrace trace = set_trace(300, 5);
  LossMeter disagreement(trace, RiskLoss::disagreement, {}), drop(trace, RiskLoss::zero_one_drop, {});
  for (const char* text : {"layer:1", "entropy:1.5", "confidence:0.6", "patience:1", "margin:0.5", "divergence:0.1,1",
                           "vote:1.5", "window:0.3,2,bias_1", "full"}) {
    const PolicySpec policy = parse_policy(text);
    const Departures departures = replay(trace, policy);
    const std::vector<double> lost = disagreement.measure(policy).losses, fell = drop.measure(policy).losses;
    for (size_t row = 0; row < trace.rows; ++row) {
      bool differs = false, early_wrong = false, full_wrong = false;
      for (size_t c = 0; c < 5; ++c) {
        const bool early = trace.at(row, departures.exit[row])[c] > 0, full = trace.at(row, 3)[c] > 0;
        const bool gold = trace.gold[row * 5 + c] == 1;
        differs |= early != full;
        early_wrong |= early != gold;
        full_wrong |= full != gold;
      }
      ASSERT_EQ(lost[row], differs ? 1 : 0) << text << " " << row;
      ASSERT_EQ(fell[row], (early_wrong ? 1 : 0) - (full_wrong ? 1 : 0)) << text << " " << row;
    }
  }
}

TEST(SeveralLabels, CalibrationCertifiesSetsAndRefusesGroupsByLabel) {
  const ExitTrace trace = set_trace(3000, 4);
  const CalibrationData data = split_for_calibration(trace, 7);
  const Calibration done = calibrate(data, {.budgets = {0.05}});
  ASSERT_TRUE(done.entry.certificate.has_value());
  EXPECT_TRUE(done.entry.certificate->answers.empty());
  EXPECT_LT(done.outcomes.front().report_cost, 0.95) << "something exits early";
  EXPECT_LE(done.outcomes.front().report.texts, 0.08);
  EXPECT_THROW((void)calibrate(data, {.budgets = {0.05}, .group = {.by = "label"}}), Error);
}

TEST(SeveralLabels, TemperaturesMakeTheYesAndNoOfFullDepthMostLikely) {
  ExitTrace trace = set_trace(400, 3, 9);
  trace.info.cuts = {cut_of(0.4), cut_of(0.5), cut_of(0.7)};
  const std::vector<float> found = decision_temperatures(trace);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found.back(), 1);
  // The likelihood with the prior, at the found temperature and beside it.
  const auto badness = [&](int exit, double temperature) {
    double sum = std::log(temperature) * std::log(temperature);
    for (size_t row = 0; row < trace.rows; ++row) {
      for (size_t c = 0; c < 3; ++c) {
        const double d = trace.at(row, exit)[c] - trace.info.cuts[c];
        const bool given = trace.at(row, 3)[c] > trace.info.cuts[c];
        sum += std::log1p(std::exp((given ? -d : d) / temperature));
      }
    }
    return sum;
  };
  for (int exit = 0; exit < 3; ++exit) {
    const double best = found[static_cast<size_t>(exit)];
    EXPECT_LT(badness(exit, best), badness(exit, best * 1.02)) << exit;
    EXPECT_LT(badness(exit, best), badness(exit, best / 1.02)) << exit;
  }
  EXPECT_EQ(score_temperatures(trace), std::vector<float>(4, 1.0F)) << "scores are compared with thresholds";
}

TEST(SeveralLabels, ATraceFileKeepsThresholdsAndGold) {
  const Scratch folder;
  ExitTrace trace = set_trace(20, 3);
  trace.info.cuts = {cut_of(0.4), cut_of(0.5), cut_of(0.123456)};
  trace.gold[4] = trace.gold[3] = trace.gold[5] = std::nanf("");
  write_trace(folder.path() / "t.safetensors", trace);
  const ExitTrace back = read_trace(folder.path() / "t.safetensors");
  EXPECT_TRUE(back.info.several);
  EXPECT_EQ(back.info.cuts, trace.info.cuts);
  EXPECT_EQ(back.gold.size(), 60U);
  EXPECT_FALSE(back.labelled());
  const std::vector<size_t> rows{7, 2};
  const ExitTrace part = select_rows(back, rows);
  EXPECT_EQ(part.gold, (std::vector<float>{trace.gold[21], trace.gold[22], trace.gold[23], trace.gold[6], trace.gold[7],
                                           trace.gold[8]}));
  trace.gold[0] = 0.5F;
  EXPECT_THROW(write_trace(folder.path() / "u.safetensors", trace), Error);
  trace.gold[0] = 1;
  trace.info.cuts.pop_back();
  EXPECT_THROW(write_trace(folder.path() / "u.safetensors", trace), Error);
}

}  // namespace
}  // namespace exeunt
