// SPDX-License-Identifier: Apache-2.0
// Several labels at once: evidence, replay, losses, temperatures and files, against sums over all sets of labels.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/temperature.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

ExitLogits several(const std::vector<float>& logits, const std::vector<float>& logit_thresholds = {},
                   float temperature = 1) {
  return {logits.data(),        static_cast<int>(logits.size()),
          temperature,          0,
          Problem::multi_label, logit_thresholds.empty() ? nullptr : logit_thresholds.data()};
}

// Each exit is surer than the one before; every label is given to about half of the rows.
ExitTrace set_trace(size_t rows, int labels, unsigned seed = 1) {
  ExitTrace trace = random_trace({.rows = rows, .exits = 4, .classes = labels, .seed = seed});
  trace.info.problem = Problem::multi_label;
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
std::vector<double> all_sets(const std::vector<float>& logits, const std::vector<float>& logit_thresholds,
                             double temperature) {
  std::vector<double> out{1};
  for (size_t c = 0; c < logits.size(); ++c) {
    const double p =
        1 / (1 + std::exp(-(static_cast<double>(logits[c]) - (logit_thresholds.empty() ? 0 : logit_thresholds[c])) /
                          temperature));
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
  for (const std::vector<float>& logit_thresholds : {std::vector<float>{}, std::vector<float>{0.5F, -1, 0, 1}}) {
    for (const float temperature : {1.0F, 2.5F}) {
      const Evidence e = compute_evidence(several(logits, logit_thresholds, temperature));
      const std::vector<double> sets = all_sets(logits, logit_thresholds, temperature);
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
  const Evidence e = compute_evidence(several({3, -0.2F}));
  const double p = 1 / (1 + std::exp(-0.2));
  EXPECT_NEAR(e.margin, 2 * p - 1, 1e-5) << "of the label that is least certain";
  EXPECT_NEAR(e.first, 1 / (1 + std::exp(-3.0)), 1e-6);
  EXPECT_EQ(e.value, 3);
}

TEST(SeveralLabels, HugeLogitsGiveFiniteEvidence) {
  for (const std::vector<float>& logits : {std::vector<float>{3e38F, -3e38F}, {0, 0}, {500, -500}, {1e-45F, -1e-45F}}) {
    const Evidence e = compute_evidence(several(logits));
    for (const float value : {e.entropy, e.nentropy, e.impurity, e.confidence, e.margin, e.least})
      EXPECT_TRUE(std::isfinite(value) && value >= 0);
  }
}

TEST(SeveralLabels, ThresholdsDecideTheLabels) {
  const std::vector<float> logits{0.1F, 0.1F, -2};
  const std::vector<float> logit_thresholds{logit_of(0.3), logit_of(0.6), logit_of(0.05)};
  const ExitLogits reading = several(logits, logit_thresholds);
  EXPECT_TRUE(has_label(reading, 0));
  EXPECT_FALSE(has_label(reading, 1));
  EXPECT_TRUE(has_label(reading, 2));
  std::vector<float> shown(3);
  probabilities(reading, shown.data());
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(shown[c], 1 / (1 + std::exp(-logits[c])), 1e-6) << "thresholds do not change what is shown";
    EXPECT_EQ(shown[c] > threshold_of(logit_thresholds[c]), has_label(reading, static_cast<int>(c)));
  }
  for (const double threshold : {0.5, 0.3, 0.123456, 0.000001, 0.999999})
    EXPECT_EQ(threshold_of(logit_of(threshold)), threshold);
}

TEST(SeveralLabels, SetsThatDifferInOneLabelHaveDifferentIndices) {
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

TEST(SeveralLabels, DivergenceMatchesClosedForm) {
  std::vector<float> memory(static_cast<size_t>(memory_floats(2)), 0.0F);
  EXPECT_TRUE(std::isinf(compute_evidence(several({2, -1}), memory.data()).shift));
  EXPECT_EQ(compute_evidence(several({2, -1}), memory.data()).shift, 0);
  const double before = 1 / (1 + std::exp(1.0)), after = 1 / (1 + std::exp(-1.0)), mean = (before + after) / 2;
  const auto kl = [](double p, double q) { return p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q)); };
  EXPECT_NEAR(compute_evidence(several({2, 1}), memory.data()).shift, (kl(before, mean) + kl(after, mean)) / 2, 1e-5);
}

TEST(SeveralLabels, LossCountsAnyDifferingLabel) {
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

TEST(SeveralLabels, CalibrationCertifiesSets) {
  const ExitTrace trace = set_trace(3000, 4);
  const CalibrationData data = split_for_calibration(trace, 7);
  const Calibration done = calibrate(data, {.max_drops = {0.05}});
  ASSERT_TRUE(done.entry.certificate.has_value());
  EXPECT_TRUE(done.entry.certificate->answers.empty());
  EXPECT_LT(done.outcomes.front().report_cost, 0.95) << "something exits early";
  EXPECT_LE(done.outcomes.front().report, 0.08);
}

// A text is in the group of each of its labels; each group keeps the promise on its own.
TEST(SeveralLabels, GroupsByLabelShareTexts) {
  ExitTrace trace = set_trace(3000, 4);
  for (const bool gold : {true, false}) {
    if (!gold) trace.gold.assign(trace.gold.size(), NAN);
    const CalibrationData data = split_for_calibration(trace, 7);
    const GroupPlan by_label{.by = "label"};
    const auto groups = Grouping(by_label, data).rows_of(data.certify, data.certify_rows);
    ASSERT_EQ(groups.size(), 4U);
    for (size_t c = 0; c < 4; ++c) {
      std::vector<size_t> expected;
      for (size_t row = 0; row < data.certify.rows; ++row)
        if (gold ? data.certify.gold[row * 4 + c] == 1 : data.certify.at(row, 3)[c] > 0) expected.push_back(row);
      EXPECT_EQ(groups[c], expected) << c;
    }
    const Calibration done = calibrate(data, {.max_drops = {0.05}, .group = by_label});
    ASSERT_EQ(done.entry.certificate->groups.size(), 4U);
    int64_t rows = 0;
    for (const CertifiedGroup& group : done.entry.certificate->groups) {
      EXPECT_LE(group.losses, 0.05 * static_cast<double>(group.rows)) << group.name;
      rows += group.rows;
    }
    EXPECT_GT(rows, done.entry.certificate->rows) << "most texts are in two groups";
  }
}

TEST(SeveralLabels, TemperaturesMaximiseLikelihoodOfFullDepth) {
  ExitTrace trace = set_trace(400, 3, 9);
  trace.info.logit_thresholds = {logit_of(0.4), logit_of(0.5), logit_of(0.7)};
  const std::vector<float> found = decision_temperatures(trace);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found.back(), 1);
  // The likelihood with the prior, at the found temperature and beside it.
  const auto badness = [&](int exit, double temperature) {
    double sum = std::log(temperature) * std::log(temperature);
    for (size_t row = 0; row < trace.rows; ++row) {
      for (size_t c = 0; c < 3; ++c) {
        const double d = trace.at(row, exit)[c] - trace.info.logit_thresholds[c];
        const bool given = trace.at(row, 3)[c] > trace.info.logit_thresholds[c];
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

TEST(SeveralLabels, TraceFileKeepsThresholdsAndGold) {
  const Scratch folder;
  ExitTrace trace = set_trace(20, 3);
  trace.info.logit_thresholds = {logit_of(0.4), logit_of(0.5), logit_of(0.123456)};
  trace.gold[4] = trace.gold[3] = trace.gold[5] = std::nanf("");
  write_trace(folder.path() / "t.safetensors", trace);
  const ExitTrace back = read_trace(folder.path() / "t.safetensors");
  EXPECT_EQ(back.info.problem, Problem::multi_label);
  EXPECT_EQ(back.info.logit_thresholds, trace.info.logit_thresholds);
  EXPECT_EQ(back.gold.size(), 60U);
  EXPECT_FALSE(back.labelled());
  const std::vector<size_t> rows{7, 2};
  const ExitTrace part = select_rows(back, rows);
  EXPECT_EQ(part.gold, (std::vector<float>{trace.gold[21], trace.gold[22], trace.gold[23], trace.gold[6], trace.gold[7],
                                           trace.gold[8]}));
  trace.gold[0] = 0.5F;
  EXPECT_THROW(write_trace(folder.path() / "u.safetensors", trace), Error);
  trace.gold[0] = 1;
  trace.info.logit_thresholds.pop_back();
  EXPECT_THROW(write_trace(folder.path() / "u.safetensors", trace), Error);
}

// The F1 of one label at full depth with a cut, counted row by row.
double f1_with(const ExitTrace& trace, size_t label, double cut) {
  double hits = 0, given = 0, texts = 0;
  for (size_t row = 0; row < trace.rows; ++row) {
    const float gold = trace.gold[row * trace.gold_width() + label];
    if (std::isnan(gold)) continue;
    const bool says = static_cast<double>(trace.full_depth(row)[label]) > cut;
    hits += says && gold == 1 ? 1 : 0;
    given += says ? 1 : 0;
    texts += gold;
  }
  return given + texts == 0 ? 0 : 2 * hits / (given + texts);
}

TEST(Thresholds, FittedThresholdsMaximiseF1OfEveryLabel) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    ExitTrace trace = set_trace(300, 3, seed);
    // Labels that are hard to tell, each away from one half, some rows without gold, and logits that repeat.
    for (size_t i = 0; i < trace.logits.size(); ++i)
      trace.logits[i] = std::round(10 * (0.2F * trace.logits[i] + static_cast<float>(i % 3) - 1.5F)) / 10;
    for (size_t i = 0; i < 30; ++i) trace.gold[i] = NAN;
    const std::vector<FittedThreshold> fitted = fit_thresholds(trace);
    ASSERT_EQ(fitted.size(), 3U);
    for (size_t label = 0; label < 3; ++label) {
      const FittedThreshold& one = fitted[label];
      EXPECT_TRUE(one.fitted);
      EXPECT_EQ(one.texts + one.without, 290);
      EXPECT_EQ(logit_of(threshold_of(one.logit)), one.logit) << "files keep it";
      EXPECT_NEAR(one.before, f1_with(trace, label, 0), 1e-12);
      EXPECT_NEAR(one.after, f1_with(trace, label, one.logit), 1e-12);
      double best = 0;
      for (double cut = -6; cut < 6; cut += 0.01) best = std::max(best, f1_with(trace, label, cut + 0.003));
      EXPECT_NEAR(one.after, best, 1e-12) << label;
      EXPECT_GE(one.after, one.before);
    }
    EXPECT_NE(fitted[0].logit, fitted[2].logit);
    // They are as good as can be: fitted again, they stay.
    trace.info.logit_thresholds = {fitted[0].logit, fitted[1].logit, fitted[2].logit};
    for (const FittedThreshold& again : fit_thresholds(trace)) EXPECT_EQ(again.before, again.after);
    for (size_t label = 0; label < 3; ++label) EXPECT_EQ(fit_thresholds(trace)[label].logit, fitted[label].logit);
  }
}

TEST(Thresholds, KeepsThresholdOfLabelWithTooFewRows) {
  ExitTrace trace = set_trace(100, 2);
  trace.info.logit_thresholds = {logit_of(0.7), logit_of(0.2)};
  for (size_t row = 0; row < trace.rows; ++row) trace.gold[2 * row] = row < 9 ? 1 : 0;
  const std::vector<FittedThreshold> fitted = fit_thresholds(trace);
  EXPECT_FALSE(fitted[0].fitted);
  EXPECT_EQ(fitted[0].texts, 9);
  EXPECT_EQ(fitted[0].logit, logit_of(0.7));
  EXPECT_TRUE(fitted[1].fitted);
  trace.gold.assign(trace.gold.size(), NAN);
  for (const FittedThreshold& one : fit_thresholds(trace)) {
    EXPECT_FALSE(one.fitted);
    EXPECT_EQ(one.texts + one.without, 0);
  }
}

TEST(Thresholds, ParsesThresholdsForAllForEachAndForSome) {
  const std::vector<std::string> labels{"calm", "rude", "a=b"};
  const std::vector<float> present{logit_of(0.2), logit_of(0.3), 0};
  EXPECT_EQ(parse_thresholds("0.4", labels, present), std::vector<float>(3, logit_of(0.4)));
  EXPECT_EQ(parse_thresholds("0.4,0.5,0.25", labels, present), (std::vector<float>{logit_of(0.4), 0, logit_of(0.25)}));
  EXPECT_EQ(parse_thresholds("rude=0.6", labels, present), (std::vector<float>{logit_of(0.2), logit_of(0.6), 0}));
  EXPECT_EQ(parse_thresholds("a=b=0.9,calm=0.1", labels, {}), (std::vector<float>{logit_of(0.1), 0, logit_of(0.9)}));
  EXPECT_TRUE(parse_thresholds("0.5", labels, present).empty()) << "one half is what a model has anyway";
  EXPECT_EQ(thresholds_by_label(labels, present), "calm 0.2, rude 0.3, a=b 0.5");
  EXPECT_EQ(thresholds_by_label(labels, {}), "calm 0.5, rude 0.5, a=b 0.5");
  const auto refusal = [&](const char* text) {
    const Error error = error_of([&] { (void)parse_thresholds(text, labels, present); });
    EXPECT_EQ(error.code(), Code::usage) << text;
    return std::string(error.what());
  };
  for (const char* text : {"", "0", "1", "-0.5", "nan", "high", "0.4,,0.5", "rude=", "rude=1.5", "0.0000001"})
    EXPECT_THAT(refusal(text), testing::HasSubstr("want a number from 0.000001 to 0.999999")) << text;
  EXPECT_THAT(refusal("0.4,0.5"), testing::HasSubstr("got 2, want one for each of 3 labels"));
  EXPECT_THAT(refusal("rde=0.4"), testing::HasSubstr("the model has no label 'rde'"));
}

}  // namespace
}  // namespace exeunt
