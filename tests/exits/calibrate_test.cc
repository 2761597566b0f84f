// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/calibrate.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/exits/candidates.h"
#include "exeunt/exits/certify.h"
#include "exeunt/exits/losses.h"
#include "exeunt/exits/policy_text.h"
#include "tests/exits/traces.h"
#include "tests/scratch.h"

namespace exeunt {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

TEST(Losses, AreAgainstFullDepth) {
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

TEST(Losses, OfNumbersAreSharesOfTheirRange) {
  ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 1});
  trace.logits = {1, 2, /**/ 3, 0.5F, /**/ 100, 0};
  EXPECT_THAT(LossMeter(trace, RiskLoss::abs_diff, {{0, 5}}).measure(parse_policy("layer:1")).losses,
              ElementsAre(0.2, 0.5, 1));
}

TEST(Losses, ThatDoNotSuitAreRefused) {
  const ExitTrace numbers = random_trace({.classes = 1});
  ExitTrace classes = random_trace({.classes = 2});
  EXPECT_EQ(error_of([&] { LossMeter(numbers, RiskLoss::disagreement, {}); }).hint(), "use abs_diff");
  EXPECT_THAT(error_of([&] {
                LossMeter(classes, RiskLoss::abs_diff, {{0, 1}});
              }).what(),
              HasSubstr("predicts classes"));
  EXPECT_THAT(error_of([&] { LossMeter(numbers, RiskLoss::abs_diff, {}); }).hint(), HasSubstr("gold values"));
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

TEST(Candidates, GoFromFullDepthToTheBoldest) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  LossMeter fit(trace, RiskLoss::disagreement, {});
  for (const char* family : {"entropy", "confidence", "margin", "patience", "pcee", "divergence", "vote", "window"}) {
    const auto candidates = order_candidates(family, {trace.sites(), {}, {}, 0}, fit);
    ASSERT_GT(candidates.size(), 4u) << family;
    EXPECT_EQ(str(candidates[0].policy), "full");
    EXPECT_EQ(candidates[0].risk, 0);
    for (size_t i = 1; i < candidates.size(); ++i) {
      EXPECT_GE(candidates[i].risk, candidates[i - 1].risk) << family;
      EXPECT_LE(candidates[i].cost_fraction, candidates[i - 1].cost_fraction) << family;
      EXPECT_EQ(info_of(candidates[i].policy.rule).name, family);
    }
    EXPECT_LT(candidates.back().cost_fraction, 0.5) << family;
  }
}

// The digits of a number that count: 3 of "0.0125", 4 of "8.751e-05".
size_t digits_in(std::string text) {
  text = text.substr(0, text.find('e'));
  std::erase(text, '.');
  const size_t first = text.find_first_not_of('0');
  return first == std::string::npos ? 0 : text.size() - first;
}

TEST(Candidates, AreNumbersThatPeopleCanRead) {
  for (const RuleInfo& rule : kRules) {
    const bool from_one = rule.name == "confidence" || rule.name == "margin";  // 0.999986 has its digits behind nines
    for (const int classes : {1, 2, 3, 7}) {
      std::set<std::string> texts;
      const std::vector<Params> settings = rule.candidates({.classes = classes, .exits = 12, .range = 4.7F});
      for (const Params& params : settings) {
        texts.insert(fmt::format("{}", fmt::join(params, ",")));
        for (size_t i = 0; i < rule.params.size(); ++i) {
          if (rule.params[i].kind != ParamKind::number || params[i] == rule.params[i].absent) continue;
          EXPECT_LE(digits_in(shortest(params[i])), from_one ? 7U : 4U) << rule.name << " " << shortest(params[i]);
        }
      }
      // Entropy over one class is 0 throughout; such settings are never tried.
      EXPECT_EQ(texts.size(), classes > 1 ? settings.size() : texts.size()) << rule.name << ": they stay apart";
    }
  }
}

TEST(Candidates, ComeFromFamiliesThatSuitTheModel) {
  const ExitSites two{{1, 2}, 2}, three{{1, 2}, 3}, headed{{1, 2}, 2, false, true}, number{{1, 2}, 1, true};
  EXPECT_THAT(families_for(two, Families::usual), ElementsAre("entropy", "patience", "pcee", "vote"));
  EXPECT_THAT(families_for(three, Families::usual), ElementsAre("entropy", "margin", "patience", "pcee", "vote"));
  EXPECT_THAT(families_for(headed, Families::usual), ElementsAre("entropy", "patience", "pcee", "vote", "lte"));
  EXPECT_THAT(families_for(number, Families::usual), ElementsAre("patience"));
  EXPECT_THAT(families_for(number, Families::all), ElementsAre("patience"));
  // For two classes confidence and margin rank texts as entropy does; H / ln C always does.
  EXPECT_THAT(families_for(two, Families::all), IsSupersetOf({"entropy", "patience", "window", "divergence"}));
  EXPECT_THAT(families_for(two, Families::all),
              Not(Contains(AnyOf("confidence", "margin", "nentropy", "lte", "full"))));
  EXPECT_THAT(families_for(three, Families::all), IsSupersetOf({"confidence", "margin"}));
  EXPECT_THAT(families_for(three, Families::all), Not(Contains("nentropy")));
}

// A rule that says it repeats another does: in the order that entropy gives any texts, it leaves none out of turn.
TEST(Candidates, OfEquivalentRulesLeaveTheSameTexts) {
  for (const int classes : {2, 3}) {
    const ExitTrace trace = random_trace({.rows = 300, .exits = 1, .classes = classes});
    for (const RuleInfo& rule : kRules) {
      if (!rule.repeats_another(classes)) continue;
      PolicySpec spec;
      for (size_t i = 0; i < kRules.size(); ++i)
        if (kRules[i].name == rule.name) spec.rule = Rule{static_cast<uint8_t>(i)};
      const Policy policy = bind(spec, trace.sites());
      for (const Params& params : rule.candidates({.classes = classes, .exits = 1, .range = 1})) {
        float most = 0, least = 100;  // the largest entropy that leaves, the smallest that stays
        for (size_t row = 0; row < trace.rows; ++row) {
          Policy tried = policy;
          tried.exit_value[0] = tried.params[0] = params[0];
          const Evidence e = weigh({trace.at(row, 0).data(), classes});
          const bool leaves = step(tried, 0, e, nullptr, nullptr) == Step::leave;
          (leaves ? most : least) = leaves ? std::max(most, e.entropy) : std::min(least, e.entropy);
        }
        EXPECT_LE(most, least + 1e-6F) << rule.name << " " << params[0] << " " << classes;
      }
    }
  }
}

TEST(Candidates, OfAnUnknownFamilyNameTheNearest) {
  const ExitTrace trace = random_trace({});
  LossMeter fit(trace, RiskLoss::disagreement, {});
  EXPECT_EQ(error_of([&] {
              (void)order_candidates("entrop", {trace.sites(), {}, {}, 0}, fit);
            }).hint(),
            "did you mean 'entropy'?");
  EXPECT_EQ(error_of([&] {
              (void)order_candidates("full", {trace.sites(), {}, {}, 0}, fit);
            }).code(),
            Code::usage)
      << "full depth is no family";
}

TEST(Certify, RowsWithoutLossAreTheFewestThatPass) {
  EXPECT_EQ(rows_without_loss({.epsilon = 0.01, .delta = 0.05}), 299);
  EXPECT_EQ(rows_without_loss({.method = RiskMethod::crc, .epsilon = 0.01}), 99);
  EXPECT_EQ(rows_without_loss({.method = RiskMethod::ltt_hb, .epsilon = 0.01, .delta = 0.05}), 299);
  EXPECT_GT(rows_without_loss({.method = RiskMethod::wsr, .epsilon = 0.01, .delta = 0.05}), 299);
  EXPECT_LT(rows_without_loss({.method = RiskMethod::wsr, .epsilon = 0.01, .delta = 0.05}), 600);
  EXPECT_LT(rows_without_loss({.loss = RiskLoss::zero_one_drop, .method = RiskMethod::wsr, .epsilon = 0.01}), 600);
  EXPECT_NEAR(least_budget({.epsilon = 0.001, .delta = 0.05}, 299), 0.01, 1e-4);
}

TEST(Certify, TheSequenceEndsBeforeTheFirstFailure) {
  // 1000 rows; setting i loses 3i of them. At 1 % and delta 0.05 four losses pass and six do not.
  const auto losses = [](size_t i) {
    std::vector<double> out(1000);
    for (size_t row = 0; row < 3 * i; ++row) out[row * 7] = 1;
    return out;
  };
  for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::ltt_hb}) {
    const SequenceResult verdict = certify_sequence({.method = method, .epsilon = 0.01, .delta = 0.05}, 10, losses);
    EXPECT_EQ(verdict.setting, 1u);
    EXPECT_EQ(verdict.losses, 3);
    EXPECT_LE(verdict.p_value, 0.05);
    EXPECT_LE(verdict.upper_bound, 0.011);
  }
  const SequenceResult conformal = certify_sequence({.method = RiskMethod::crc, .epsilon = 0.01}, 10, losses);
  EXPECT_EQ(conformal.losses, 9) << "(9 + 1) / 1001 is within 1 %";
}

TEST(Certify, WhatPassesWouldHavePassed) {
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

TEST(Calibrate, CertifiesARealModel) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("sst2-exeunt.held")), 42);
  const Calibration result = calibrate(data, {.budgets = {0.01, 0.02, 0.05}, .delta = 0.05});
  ASSERT_EQ(result.outcomes.size(), 3u);
  double cost = 1;
  for (const BudgetOutcome& outcome : result.outcomes) {
    EXPECT_LT(outcome.certify_cost, cost) << "a larger budget buys more";
    EXPECT_LE(outcome.upper_bound, outcome.epsilon);
    EXPECT_LE(outcome.p_value, 0.05 / 3);
    EXPECT_LE(outcome.report_risk, outcome.epsilon);
    cost = outcome.certify_cost;
  }
  EXPECT_LT(cost, 0.5);
  EXPECT_EQ(result.entry.points.size(), 3u);
  EXPECT_EQ(result.entry.policy, result.entry.points[0].policy);
  EXPECT_EQ(result.entry.certificate->rows, 3000);
  EXPECT_EQ(result.entry.certificate->budgets, 3);
  EXPECT_EQ(result.entry.certificate->method, RiskMethod::ltt_binomial);
  EXPECT_EQ(result.trials.front().family, std::string(info_of(result.entry.policy.rule).name));
  for (const FamilyTrial& trial : result.trials) EXPECT_GE(trial.cost_fraction, result.trials.front().cost_fraction);
  for (const PolicyPoint& point : result.entry.points) {
    ASSERT_EQ(point.exit_rates.size(), 12u);
    double layers = 0;  // the rates say how deep the rows went, and so must the cost
    for (size_t exit = 0; exit < 12; ++exit) layers += point.exit_rates[exit] * static_cast<double>(exit + 1);
    EXPECT_NEAR(layers / 12, point.cost_fraction, 1e-5);
  }
  // The entry stands in a file as it is.
  PolicyFile file{data.fit.info.weights, "fp32", {result.entry}};
  EXPECT_NO_THROW((void)parse_policy_file(policy_file_text(file), "p"));
  EXPECT_NO_THROW((void)bind(result.entry.complete(), data.fit.sites()));
}

// Rows of the same shape that say something else: other logits, other labels.
void overwrite(ExitTrace& part) {
  std::mt19937 random(7);
  std::normal_distribution<float> noise;
  for (float& logit : part.logits) logit = 3 * noise(random);
  for (float& score : part.lte) score = static_cast<float>(random() % 1000) / 1000;
  for (float& gold : part.gold)
    gold = part.info.regression ? 9 * noise(random) : static_cast<float>(random() % static_cast<unsigned>(part.width));
}

struct Separation {
  const char* trace;
  CalibrationPlan plan;
};

// The promise holds only if the certify rows chose nothing: not a temperature, a family, a setting or its place.
TEST(Calibrate, ChoosesNothingByTheCertifyRows) {
  const Separation cases[] = {
      {"sst2-exeunt.held", {.budgets = {0.02, 0.05}}},
      {"mnli-exeunt.held", {.budgets = {0.05}}},
      {"mnli-exeunt.held", {.budgets = {0.05}, .loss = RiskLoss::zero_one_drop}},
      {"sst2-exeunt.held", {.budgets = {0.02}, .method = RiskMethod::crc, .exits = {2, 4, 6, 12}}},
      {"stsb-exeunt.dev", {.budgets = {0.05}}},  // and the range of its labels comes from the fit part
  };
  for (const auto& [name, plan] : cases) {
    const CalibrationData data = split_for_calibration(read_trace(real_trace(name)), 42);
    CalibrationData other = data;
    overwrite(other.certify);
    const Calibration a = calibrate(data, plan), b = calibrate(other, plan);
    EXPECT_NE(a.outcomes[0].policy, b.outcomes[0].policy) << name << ": the certify rows decide what passes";
    EXPECT_EQ(a.entry.decision_temperature, b.entry.decision_temperature) << name;
    EXPECT_EQ(a.entry.exits, b.entry.exits) << name;
    EXPECT_EQ(a.sequence, b.sequence) << name;
    ASSERT_EQ(a.trials.size(), b.trials.size()) << name;
    for (size_t i = 0; i < a.trials.size(); ++i) {
      EXPECT_EQ(a.trials[i].family, b.trials[i].family) << name;
      EXPECT_EQ(a.trials[i].cost_fraction, b.trials[i].cost_fraction) << name << ' ' << a.trials[i].family;
    }
    // Nor do the rows that report.
    other = data;
    overwrite(other.report);
    const Calibration c = calibrate(other, plan);
    EXPECT_EQ(a.sequence, c.sequence) << name;
    EXPECT_NE(a.outcomes[0].report_risk, c.outcomes[0].report_risk) << name;
    for (size_t i = 0; i < a.outcomes.size(); ++i) EXPECT_EQ(a.outcomes[i].policy, c.outcomes[i].policy) << name;
  }
}

// What is expected of a family on the fit part is about what its certificate then comes to, whatever the loss.
TEST(Calibrate, ExpectsAboutWhatItThenCertifies) {
  const Separation cases[] = {
      {"sst2-exeunt.held", {.budgets = {0.02}}},
      {"mnli-exeunt.held", {.budgets = {0.05}}},
      {"sst2-exeunt.held", {.budgets = {0.02}, .loss = RiskLoss::zero_one_drop}},
      {"mnli-exeunt.held", {.budgets = {0.05}, .loss = RiskLoss::zero_one_drop}},
      {"sst2-exeunt.held", {.budgets = {0.02}, .method = RiskMethod::ltt_hb}},
      {"sst2-exeunt.held", {.budgets = {0.02}, .method = RiskMethod::crc}},
      {"stsb-exeunt.dev", {.budgets = {0.05}, .range = {{0, 5}}}},
  };
  for (auto [name, plan] : cases) {
    const CalibrationData data = split_for_calibration(read_trace(real_trace(name)), 42);
    double chosen = 0, cheapest = 1;
    for (const FamilyTrial& trial : calibrate(data, plan).trials) {
      plan.families = {trial.family};
      const double certified = calibrate(data, plan).outcomes[0].certify_cost;
      EXPECT_NEAR(trial.cost_fraction, certified, 0.15) << name << ' ' << trial.family;
      if (chosen == 0) chosen = certified;
      cheapest = std::min(cheapest, certified);
    }
    EXPECT_LT(chosen, cheapest + 0.03) << name << ": the family chosen is about the cheapest";
  }
}

TEST(Calibrate, ServesOtherLossesAndMethods) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("mnli-exeunt.held")), 42);
  for (const RiskLoss loss : {RiskLoss::disagreement, RiskLoss::zero_one_drop}) {
    for (const RiskMethod method : {RiskMethod::ltt_hb, RiskMethod::wsr, RiskMethod::crc}) {
      // Hoeffding's bound knows no variance: over losses from -1 to 1 it would take 10,998 rows.
      if (loss == RiskLoss::zero_one_drop && method == RiskMethod::ltt_hb) continue;
      const Calibration result = calibrate(data, {.budgets = {0.02}, .loss = loss, .method = method});
      EXPECT_LT(result.outcomes[0].certify_cost, 0.95) << name_of(loss) << ' ' << name_of(method);
      EXPECT_EQ(result.entry.certificate->method, method);
      EXPECT_EQ(result.entry.certificate->loss, loss);
    }
  }
}

TEST(Calibrate, ServesARegression) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("stsb-exeunt.dev")), 42);
  const Calibration result = calibrate(data, {.budgets = {0.05}, .range = {{0, 5}}});
  EXPECT_EQ(result.entry.certificate->loss, RiskLoss::abs_diff);
  EXPECT_EQ(result.entry.certificate->method, RiskMethod::wsr);
  EXPECT_EQ(info_of(result.entry.policy.rule).name, "patience");
  EXPECT_LT(result.outcomes[0].certify_cost, 0.9);
  EXPECT_NO_THROW((void)calibrate(data, {.budgets = {0.05}})) << "the range is then that of the gold values";
}

TEST(Calibrate, NeedsNoLabels) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  std::fill(trace.gold.begin(), trace.gold.end(), NAN);
  const Calibration result = calibrate(split_for_calibration(trace, 42), {.budgets = {0.02}});
  EXPECT_LT(result.outcomes[0].certify_cost, 0.6);
}

TEST(Calibrate, KeepsToTheExitsAndFamiliesAskedFor) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("sst2-exeunt.held")), 42);
  const Calibration result =
      calibrate(data, {.budgets = {0.02}, .families = {"patience"}, .exits = {2, 4, 6, 8, 12}, .temperatures = false});
  EXPECT_EQ(info_of(result.entry.policy.rule).name, "patience");
  EXPECT_THAT(result.entry.exits, ElementsAre(2, 4, 6, 8, 12));
  EXPECT_EQ(result.entry.decision_temperature, std::vector<float>(12, 1.0F));
}

TEST(Calibrate, TooLittleDataSaysHowMuchWouldDo) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("rte-exeunt.dev")), 42);
  const Error error = error_of([&] { (void)calibrate(data, {.budgets = {0.01}}); });
  EXPECT_EQ(error.code(), Code::failure);
  EXPECT_STREQ(error.what(),
               "not enough data: certifying 1 % at 95 % takes 299 examples without a loss, and the certify part has "
               "166");
  EXPECT_EQ(error.hint(),
            "provide 499 examples in total, add texts without labels (--unlabelled FILE), or allow more: 166 examples "
            "certify 1.79 % at best");
  EXPECT_THAT(error_of([&] { (void)calibrate(data, {.budgets = {0.005}, .method = RiskMethod::crc}); }).what(),
              HasSubstr("0.5 % in expectation takes 199 examples"));
  EXPECT_NO_THROW((void)calibrate(data, {.budgets = {0.05}}));
}

TEST(Calibrate, WhereNothingPassesFullDepthIsTheAnswer) {
  // Early exits that know nothing: they agree with the last by chance alone.
  ExitTrace trace = random_trace({.rows = 2000, .exits = 3, .classes = 2});
  for (size_t row = 0; row < trace.rows; ++row)
    for (size_t exit = 0; exit < 2; ++exit)
      trace.logits[(row * 3 + exit) * 2] = trace.logits[(row * 3 + exit) * 2 + 1] + (row % 2 == 0 ? 5.0F : -5.0F);
  const Calibration result = calibrate(split_for_calibration(trace, 42), {.budgets = {0.01}});
  EXPECT_EQ(str(result.entry.policy), "full");
  EXPECT_EQ(result.outcomes[0].certify_cost, 1);
  EXPECT_EQ(result.outcomes[0].losses, 0);
}

TEST(Calibrate, PlansThatMakeNoSenseAreRefused) {
  const CalibrationData data = split_for_calibration(random_trace({.rows = 2000, .classes = 2}), 1);
  const auto refused = [&](const CalibrationPlan& plan) {
    const Error error = error_of([&] { (void)calibrate(data, plan); });
    EXPECT_EQ(error.code(), Code::usage);
    return std::string(error.what());
  };
  EXPECT_THAT(refused({.budgets = {}}), HasSubstr("no budget"));
  EXPECT_THAT(refused({.budgets = {0}}), HasSubstr("want a share from 1e-05 to below 1"));
  EXPECT_THAT(refused({.budgets = {1}}), HasSubstr("below 1"));
  EXPECT_THAT(refused({.budgets = {0.02, 0.01}}), HasSubstr("increasing"));
  EXPECT_THAT(refused({.delta = 0}), HasSubstr("confidence: got 1"));
  EXPECT_THAT(refused({.families = {"entropi"}}), HasSubstr("unknown policy family"));
  EXPECT_THAT(refused({.families = {"lte"}}), HasSubstr("no learning-to-exit head"));
  EXPECT_THAT(refused({.loss = RiskLoss::zero_one_drop, .method = RiskMethod::ltt_binomial}),
              HasSubstr("counts losses"));
  EXPECT_THAT(refused({.exits = {1, 9}}), HasSubstr("after layer 9"));
}

}  // namespace
}  // namespace exeunt
