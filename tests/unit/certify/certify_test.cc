// SPDX-License-Identifier: Apache-2.0
// What certificates are made of: losses, the parts that rows are split into, and the tests.
#include <cmath>
#include <set>

#include "exeunt/certify/losses.h"
#include "exeunt/certify/risk.h"
#include "exeunt/certify/split.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Losses, CompareWithFullDepth) {
  ExitTrace trace = random_trace({.rows = 4, .exits = 2, .classes = 2});
  //               exit 1   exit 2                 gold
  trace.logits = {1, 0, 1, 0, /* both 0 */ 1, 0, 0, 1, /* 0, then 1 */ 0, 1, 1, 0, /* 1, then 0 */ 0, 1, 0, 1};
  trace.gold = {0, 1, 1, 0};
  const PolicySpec first = parse_policy("layer:1");
  EXPECT_THAT(LossMeter(trace, RiskLoss::disagreement, {}).measure(first).losses, ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(LossMeter(trace, RiskLoss::zero_one_drop, {}).measure(first).losses, ElementsAre(0, 1, -1, 0));
  EXPECT_EQ(LossMeter(trace, RiskLoss::disagreement, {}).measure(first).cost_fraction, 0.5);
  EXPECT_THAT(LossMeter(trace, RiskLoss::disagreement, {}).measure(parse_policy("full")).losses,
              ElementsAre(0, 0, 0, 0));
}

// What counts is fp32 at full depth, where the trace knows it, not the same precision's last exit.
TEST(Losses, CompareWithTheReferenceOfTheTrace) {
  ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 2});
  trace.logits = {1, 0, 1, 0, /**/ 1, 0, 0, 1, /**/ 0, 1, 0, 1};
  trace.gold = {0, 0, 0};
  trace.reference = {1, 0, /**/ 1, 0, /**/ 1, 0};
  LossMeter meter(trace, RiskLoss::disagreement, {});
  EXPECT_THAT(meter.measure(parse_policy("layer:1")).losses, ElementsAre(0, 0, 1));
  EXPECT_THAT(meter.measure(parse_policy("full")).losses, ElementsAre(0, 1, 1)) << "full depth may lose, too";
  EXPECT_THAT(LossMeter(trace, RiskLoss::zero_one_drop, {}).measure(parse_policy("full")).losses, ElementsAre(0, 1, 1));
}

// A model whose ramp answers at the last layer loses there, too: against its final head.
TEST(Losses, UseTheHeadThatAnswers) {
  ExitTrace trace = random_trace({.rows = 2, .exits = 2, .classes = 2, .ramp = true});
  trace.logits = {0, 0, 5, 0, /**/ 0, 0, 5, 0};  // the first exit is never sure
  trace.ramp = {5, 0, /**/ 0, 5};
  const PolicySpec policy = parse_policy("entropy:0.1");
  EXPECT_THAT(LossMeter(trace, RiskLoss::disagreement, {}).measure(policy).losses, ElementsAre(0, 0));
  trace.info.last_head = LastHead::ramp;
  EXPECT_THAT(LossMeter(trace, RiskLoss::disagreement, {}).measure(policy).losses, ElementsAre(0, 1));
}

TEST(Losses, RegressionLossIsShareOfRange) {
  ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 1});
  trace.logits = {1, 2, /**/ 3, 0.5F, /**/ 100, 0};
  EXPECT_THAT(LossMeter(trace, RiskLoss::abs_diff, {{0, 5}}).measure(parse_policy("layer:1")).losses,
              ElementsAre(0.2, 0.5, 1));
}

TEST(Losses, RejectLossOfAnotherProblem) {
  const ExitTrace numbers = random_trace({.classes = 1});
  ExitTrace classes = random_trace({.classes = 2});
  EXPECT_EQ(error_of([&] { LossMeter(numbers, RiskLoss::disagreement, {}); }).hint(), "use abs_diff");
  EXPECT_THAT(error_of([&] {
                LossMeter(classes, RiskLoss::abs_diff, {{0, 1}});
              }).what(),
              HasSubstr("predicts classes"));
  EXPECT_THAT(error_of([&] { LossMeter(numbers, RiskLoss::abs_diff, {}); }).hint(), HasSubstr("--range 0,5"));
  EXPECT_EQ(error_of([&] { LossMeter(numbers, RiskLoss::abs_diff, {{1, 1}}); }).code(), Code::usage);
  classes.gold[0] = NAN;
  EXPECT_THAT(error_of([&] { LossMeter(classes, RiskLoss::zero_one_drop, {}); }).what(),
              HasSubstr("needs the gold label"));
}

TEST(Split, EveryRowIsInOnePart) {
  const ExitTrace trace = random_trace({.rows = 101});
  const CalibrationData data = split_for_calibration(trace, 42);
  EXPECT_EQ(data.fit.rows, 20u);
  EXPECT_EQ(data.certify.rows, 60u);
  EXPECT_EQ(data.report.rows, 21u);
  std::set<int64_t> seen;
  for (const ExitTrace* part : {&data.fit, &data.certify, &data.report}) {
    seen.insert(part->index.begin(), part->index.end());
    for (size_t row = 0; row < part->rows; ++row)
      EXPECT_EQ(part->at(row, 1)[0], trace.at(static_cast<size_t>(part->index[row]), 1)[0]);
  }
  EXPECT_EQ(seen.size(), 101u);
  EXPECT_EQ(split_for_calibration(trace, 42).fit.index, data.fit.index) << "the seed decides";
  EXPECT_NE(split_for_calibration(trace, 43).fit.index, data.fit.index);
  EXPECT_EQ(split_for_calibration(random_trace({.rows = 3}), 1).report.rows, 1u);
  EXPECT_EQ(error_of([] { (void)split_for_calibration(random_trace({.rows = 2}), 1); }).code(), Code::failure);
}

TEST(Split, WithoutReportPartTheRestCertifies) {
  const CalibrationData data = split_for_calibration(random_trace({.rows = 101}), 42, kNoReport);
  EXPECT_EQ(data.fit.rows, 20u);
  EXPECT_EQ(data.certify.rows, 81u);
  EXPECT_EQ(data.report.rows, 0u);
  EXPECT_EQ(split_for_calibration(random_trace({.rows = 2}), 1, kNoReport).certify.rows, 1u);
}

// As distinct texts, equal ones are one row of one part, however often they come; as requests, all rows are drawn.
TEST(Split, KeepsEveryRowOrOneOfEqualTexts) {
  ExitTrace trace = random_trace({.rows = 200});
  for (size_t row = 0; row < 200; ++row) trace.row_hash.push_back(row < 100 ? row / 10 : row);
  EXPECT_EQ(distinct_rows(trace), 110U);
  for (const bool distinct : {false, true}) {
    const CalibrationData data = split_for_calibration(trace, 42, {.distinct = distinct});
    std::set<size_t> rows_seen;
    std::set<uint64_t> texts_seen;
    const std::pair<const ExitTrace*, const PartRows*> parts[] = {
        {&data.fit, &data.fit_rows}, {&data.certify, &data.certify_rows}, {&data.report, &data.report_rows}};
    for (const auto& [part, rows] : parts) {
      ASSERT_EQ(part->rows, rows->row.size());
      for (size_t row = 0; row < part->rows; ++row) {
        EXPECT_TRUE(rows_seen.insert(rows->row[row]).second) << "in two parts";
        texts_seen.insert(part->row_hash[row]);
        EXPECT_EQ(part->at(row, 0)[0], trace.at(rows->row[row], 0)[0]);
      }
    }
    EXPECT_EQ(rows_seen.size(), distinct ? 110U : 200U);
    EXPECT_EQ(texts_seen.size(), 110U);
  }
}

TEST(Certify, RowsWithoutLossMatchKnownFigures) {
  EXPECT_EQ(rows_without_loss({.max_drop = 0.01, .delta = 0.05}), 299);
  EXPECT_EQ(rows_without_loss({.method = RiskMethod::crc, .max_drop = 0.01}), 99);
  EXPECT_EQ(rows_without_loss({.method = RiskMethod::ltt_hb, .max_drop = 0.01, .delta = 0.05}), 299);
  EXPECT_GT(rows_without_loss({.method = RiskMethod::wsr, .max_drop = 0.01, .delta = 0.05}), 299);
  EXPECT_LT(rows_without_loss({.method = RiskMethod::wsr, .max_drop = 0.01, .delta = 0.05}), 600);
  EXPECT_LT(rows_without_loss({.loss = RiskLoss::zero_one_drop, .method = RiskMethod::wsr, .max_drop = 0.01}), 600);
  EXPECT_NEAR(least_max_drop({.max_drop = 0.001, .delta = 0.05}, 299), 0.01, 1e-4);
}

TEST(Certify, FixedSequenceEndsBeforeTheFirstFailure) {
  // 1000 rows; setting i loses 3i of them. At 1 % and delta 0.05 four losses pass and six do not.
  const auto losses = [](size_t i) {
    std::vector<double> out(1000);
    for (size_t row = 0; row < 3 * i; ++row) out[row * 7] = 1;
    return out;
  };
  for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::ltt_hb}) {
    const SequenceResult verdict = certify_sequence({.method = method, .max_drop = 0.01, .delta = 0.05}, 10, losses);
    EXPECT_EQ(verdict.setting, 1u);
    EXPECT_LE(verdict.p_value, 0.05);
    EXPECT_GT(verdict.p_value, 0);
  }
  const SequenceResult conformal = certify_sequence({.method = RiskMethod::crc, .max_drop = 0.01}, 10, losses);
  EXPECT_EQ(conformal.setting, 3u) << "(9 + 1) / 1001 is within 1 %";
  const auto bad = [&](size_t i) { return losses(i + 4); };
  EXPECT_FALSE(certify_sequence({.max_drop = 0.01, .delta = 0.05}, 10, bad).setting) << "not even the first passes";
}

// Intersection-union: every group has to pass on its own, and the walk ends with the first that does not.
TEST(Certify, RequiresEveryGroupToPass) {
  const RiskTest test{.max_drop = 0.02, .delta = 0.05};
  // Setting i loses i of the first 300 rows, and none of the others.
  const auto losses = [](size_t i) {
    std::vector<double> out(3000);
    for (size_t row = 0; row < i; ++row) out[row] = 1;
    return out;
  };
  Sample sample;
  sample.sets.resize(2);
  for (size_t row = 0; row < 3000; ++row) sample.sets[row < 300 ? 0 : 1].rows.push_back(row);
  const auto alone = static_cast<size_t>(losses_allowed(300, 0.02, 0.05));
  const SequenceResult whole = certify_sequence(test, 20, losses), groups = certify_sequence(test, 20, losses, sample);
  EXPECT_EQ(whole.setting, 19u);
  EXPECT_EQ(groups.setting, alone);
  EXPECT_DOUBLE_EQ(groups.p_value, binomial_p_value(static_cast<int64_t>(alone), 300, 0.02));
  EXPECT_TRUE(would_pass(test, losses(alone), 3000, sample));
  EXPECT_FALSE(would_pass(test, losses(alone + 1), 3000, sample));
  sample.sets.emplace_back();
  EXPECT_FALSE(certify_sequence(test, 20, losses, sample).setting) << "a group without rows has shown nothing";
}

// One cluster in twenty has ten rows, the others one.
TEST(Certify, CountsClustersByTheirRows) {
  const RiskTest test{.method = RiskMethod::wsr, .max_drop = 0.1, .delta = 0.05};
  Sample sample{.most = 10};
  std::vector<double> small, large;
  for (size_t cluster = 0; cluster < 1000; ++cluster) {
    for (size_t row = 0; row < (cluster % 20 == 0 ? 10 : 1); ++row) {
      sample.cluster.push_back(cluster);
      small.push_back(cluster % 20 == 1 ? 1 : 0);
      large.push_back(cluster % 20 == 0 ? 1 : 0);
    }
  }
  const auto passes = [&](const std::vector<double>& losses) {
    const auto settings = [&](size_t i) { return i == 0 ? std::vector<double>(losses.size()) : losses; };
    return certify_sequence(test, 2, settings, sample).setting == 1u;
  };
  EXPECT_TRUE(passes(small)) << "1 in 29 rows";
  EXPECT_FALSE(passes(large)) << "10 in 29 rows, of as many clusters";
}

TEST(Certify, DrawsAreClustersWithTheirMeanLossAndRows) {
  Sample sample{.cluster = {0, 1, 0, 2, 1, 0}};
  const std::vector<double> losses{1, 0, 0, 1, 1, 0.5};
  const Draws all = draws_of(losses, sample);
  EXPECT_EQ(all.losses, (std::vector<double>{0.5, 0.5, 1}));
  EXPECT_EQ(all.weights.of, (std::vector<double>{3, 2, 1}));
  const std::vector<size_t> rows{4, 3};
  EXPECT_EQ(draws_of(losses, sample, &rows).losses, (std::vector<double>{1, 1}));
  EXPECT_EQ(draws_of(losses, sample, &rows).weights.of, (std::vector<double>{1, 1}));
  EXPECT_TRUE(draws_of(losses, {}).weights.of.empty()) << "every row once";
}

// Sixty clusters of ten rows of which three are lost: 30 of 600 rows, but no more than 60 draws tell of it.
TEST(Certify, TestsSumsOverClusters) {
  const RiskTest test{.method = RiskMethod::wsr, .max_drop = 0.1, .delta = 0.05};
  Sample sample{.most = 10};
  std::vector<double> losses;
  for (size_t row = 0; row < 600; ++row) {
    sample.cluster.push_back(row / 10);
    losses.push_back(row / 10 % 20 == 7 ? 1 : 0);
  }
  const auto passes = [&](const Sample& of) {
    return certify_sequence(
        test, 1, [&](size_t) { return losses; }, of);
  };
  EXPECT_TRUE(passes({}).setting.has_value());
  EXPECT_FALSE(passes(sample).setting.has_value());
  EXPECT_EQ(would_pass(test, losses, 600, sample), passes(sample).setting.has_value());
  EXPECT_TRUE(would_pass(test, losses, 6000, sample)) << "600 draws";
}

TEST(Certify, IntervalsHaveTheirCoverage) {
  EXPECT_EQ(loss_interval(RiskLoss::disagreement, std::vector<double>(100)).low, 0);
  EXPECT_NEAR(loss_interval(RiskLoss::disagreement, std::vector<double>(100)).high, 1 - std::pow(0.025, 0.01), 1e-9);
  std::vector<double> some(200);
  for (size_t row = 0; row < 20; ++row) some[row * 10] = 1;
  const LossInterval tenth = loss_interval(RiskLoss::disagreement, some);
  EXPECT_NEAR(tenth.low, 0.0622, 1e-3);  // Clopper and Pearson's, by R's binom.test(20, 200)
  EXPECT_NEAR(tenth.high, 0.1502, 1e-3);
  const LossInterval betting = loss_interval(RiskLoss::abs_diff, some);
  EXPECT_LT(betting.low, 0.1);
  EXPECT_GT(betting.low, 0);
  EXPECT_GT(betting.high, 0.1);
  EXPECT_LT(betting.high, 0.25);
  // From -1 to 1: nothing seen is not nothing, and neither side is likelier.
  const LossInterval none = loss_interval(RiskLoss::zero_one_drop, std::vector<double>(500));
  EXPECT_LT(none.low, 0);
  EXPECT_NEAR(none.high, -none.low, 1e-9);
  EXPECT_LT(none.high, 0.1);
}

TEST(Certify, WouldPassAgreesWithCertifySequence) {
  for (const RiskLoss loss : {RiskLoss::disagreement, RiskLoss::zero_one_drop, RiskLoss::abs_diff}) {
    for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::ltt_hb, RiskMethod::wsr, RiskMethod::crc}) {
      if (method == RiskMethod::ltt_binomial && loss != RiskLoss::disagreement) continue;
      const RiskTest test{loss, method, 0.05, 0.05};
      int passed = 0;
      for (size_t lost = 0; lost < 300; lost += 10) {
        std::vector<double> losses(4000);
        for (size_t i = 0; i < lost; ++i) losses[i * 13] = loss == RiskLoss::abs_diff ? 0.9 : 1;
        const bool passes = certify_sequence(test, 2, [&](size_t i) {
                              return i == 0 ? std::vector<double>(losses.size()) : losses;
                            }).setting == 1;
        EXPECT_EQ(would_pass(test, losses, 4000), passes) << name_of(loss) << ' ' << name_of(method) << ' ' << lost;
        EXPECT_FALSE(would_pass(test, losses, 10)) << "10 rows certify nothing of 5 %";
        passed += passes ? 1 : 0;
      }
      EXPECT_TRUE(passed > 3 && passed < 27) << name_of(loss) << ' ' << name_of(method) << ": " << passed;
    }
  }
}

}  // namespace
}  // namespace exeunt
