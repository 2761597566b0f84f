// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/recommend.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>

#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
using testing::Not;

RunOnTrial trial_of(const ExitTrace& trace, const std::string& name = "run") {
  return {.name = name, .trace = &trace};
}

Recommendation recommend_one(const ExitTrace& trace, const Goal& goal, uint64_t seed = 42) {
  const RunOnTrial run = trial_of(trace);
  return recommend(std::span(&run, 1), goal, seed);
}

std::string all_text(const Recommendation& what, std::span<const RunOnTrial> runs, const Goal& goal) {
  const RecommendationText text = explained(what, runs, goal);
  std::string out = text.verdict + "\n";
  for (const std::string& note : text.notes) out += note + "\n";
  for (const auto& row : text.rows) EXPECT_EQ(row.size(), text.header.size());
  return out;
}

TEST(Recommend, MeetsSpeedUpWithBestQualityOnSelectionRows) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const Goal goal{.speedup = 3.0};
  const Recommendation what = recommend_one(trace, goal);
  EXPECT_TRUE(what.met);
  EXPECT_FALSE(what.certified);
  EXPECT_EQ(what.choose_rows + what.report_rows, trace.rows);
  const Alternative& best = what.best();
  EXPECT_GE(best.chosen_speedup, 3);
  EXPECT_NEAR(best.speedup, 3, 0.3) << "on other rows it is about the same";
  EXPECT_GT(best.quality, what.full[0].quality - 0.01) << "this model bears 3x";
  std::set<std::string> families;
  for (const Alternative& one : what.options) {
    families.insert(one.family);
    EXPECT_GE(best.chosen_quality, one.chosen_quality) << one.family;
    EXPECT_LE(one.quality_bounds.low, one.quality);
    EXPECT_GE(one.quality_bounds.high, one.quality);
  }
  for (const char* family : {"entropy", "patience", "pcee", "vote", "window", "divergence", "layer"})
    EXPECT_TRUE(families.contains(family)) << family;
  const RunOnTrial run = trial_of(trace);
  const std::string text = all_text(what, std::span(&run, 1), goal);
  EXPECT_THAT(text, HasSubstr("use " + str(best.policy)));
  EXPECT_THAT(text, HasSubstr("not used for selection"));
}

// Rows with sets of two labels, the second always the opposite of the first: the same answers as a model of two classes
// gives. What is recommended for one must hold for the other.
TEST(Recommend, ScoresWholeLabelSets) {
  const ExitTrace classes = read_trace(real_trace("sst2-exeunt.held"));
  ASSERT_EQ(classes.width, 2);
  ExitTrace sets = classes;
  sets.info.problem = Problem::multi_label;
  sets.gold.clear();
  for (size_t i = 0; i < sets.logits.size(); i += 2) {
    const float lead = classes.logits[i] - classes.logits[i + 1];  // softmax of two is the sigmoid of their difference
    sets.logits[i] = lead;
    sets.logits[i + 1] = -lead;
  }
  for (const float gold : classes.gold) sets.gold.insert(sets.gold.end(), {gold == 0 ? 1.0F : 0.0F, gold});
  sets.ramp.clear();
  sets.reference.clear();
  const Goal goal{.speedup = 3.0};
  RunOnTrial run = trial_of(sets);
  run.primary = Metric::exact_match;
  const Recommendation what = recommend(std::span(&run, 1), goal, 42);
  EXPECT_TRUE(what.met);
  EXPECT_TRUE(what.labelled);
  const Recommendation one_label = recommend_one(classes, goal);
  EXPECT_NEAR(what.full[0].quality, one_label.full[0].quality, 1e-12) << "a set is right where the class is";
  EXPECT_NEAR(what.full[0].quality_bounds.low, one_label.full[0].quality_bounds.low, 1e-12);
  EXPECT_NEAR(what.full[0].quality_bounds.high, one_label.full[0].quality_bounds.high, 1e-12);
  EXPECT_GE(what.best().chosen_speedup, 3);
  EXPECT_THAT(all_text(what, std::span(&run, 1), goal), HasSubstr("exact_match"));
  // Runs are compared by the names of their labels, in whatever order.
  ExitTrace turned = sets;
  std::swap(turned.info.labels[0], turned.info.labels[1]);
  for (size_t i = 0; i < turned.logits.size(); i += 2) std::swap(turned.logits[i], turned.logits[i + 1]);
  for (size_t i = 0; i < turned.gold.size(); i += 2) std::swap(turned.gold[i], turned.gold[i + 1]);
  const std::vector<RunOnTrial> both{run, {.name = "turned", .trace = &turned, .primary = Metric::exact_match}};
  const Recommendation of_two = recommend(both, goal, 42);
  EXPECT_EQ(of_two.full[0].quality, of_two.full[1].quality);
  const std::vector<RunOnTrial> mixed{run, trial_of(classes, "classes")};
  EXPECT_THAT(error_of([&] { (void)recommend(mixed, goal, 42); }).what(), HasSubstr("another kind of problem"));
}

// Rows that report are overwritten: the choice must stay, the figures must not.
TEST(Recommend, ReportsOnRowsNotUsedForSelection) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  for (const Goal& goal : {Goal{.speedup = 2.5}, Goal{.max_drop = 0.02}}) {
    const Recommendation before = recommend_one(trace, goal);
    const SplitShares shares = goal.max_drop ? shares_for(trace, {.max_drops = {*goal.max_drop}}, true)
                                             : SplitShares{.fit = 0.25, .certify = 0.25};
    const ExitTrace part = split_for_calibration(trace, 42, shares).report;
    const std::set<int64_t> reporting(part.index.begin(), part.index.end());
    EXPECT_EQ(reporting.size(), before.report_rows);
    ExitTrace changed = trace;
    for (size_t row = 0; row < trace.rows; ++row)
      if (reporting.contains(trace.index[row])) changed.gold[row] = 1 - trace.gold[row];
    const Recommendation after = recommend_one(changed, goal);
    EXPECT_EQ(after.best().policy, before.best().policy);
    EXPECT_EQ(after.best().chosen_quality, before.best().chosen_quality);
    EXPECT_NEAR(after.best().quality, 1 - before.best().quality, 1e-9);
  }
}

// The trace, with every exit before the last of some rows overwritten: by no opinion, or by the wrong one.
ExitTrace spoiled(ExitTrace trace, const std::vector<int64_t>& rows, bool wrong) {
  const std::set<int64_t> touched(rows.begin(), rows.end());
  const size_t exits = trace.info.layers.size(), classes = trace.info.labels.size();
  for (size_t row = 0; row < trace.rows; ++row) {
    if (!touched.contains(trace.index[row])) continue;
    const float* last = &trace.logits[(row * exits + exits - 1) * classes];
    for (size_t exit = 0; exit + 1 < exits; ++exit)
      for (size_t c = 0; c < classes; ++c) trace.logits[(row * exits + exit) * classes + c] = wrong ? -9 * last[c] : 0;
  }
  return trace;
}

TEST(Recommend, ReportsSpeedUpMissedOnReportRows) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  const ExitTrace part = split_for_calibration(trace, 42, {.fit = 0.25, .certify = 0.25}).report;
  const ExitTrace slow = spoiled(trace, part.index, false);
  const Goal goal{.speedup = 3.0};
  const Recommendation what = recommend_one(slow, goal);
  EXPECT_TRUE(what.met) << "where it was chosen";
  EXPECT_FALSE(what.met_fresh);
  EXPECT_FALSE(what.best().meets_fresh);
  EXPECT_NEAR(what.best().missed_by, 3 - what.best().speedup, 1e-9);
  const RunOnTrial run = trial_of(slow);
  const std::string text = all_text(what, std::span(&run, 1), goal);
  EXPECT_THAT(text, HasSubstr(fmt::format("\n  {:.2f}x short of 3x on fresh texts", what.best().missed_by)));
  EXPECT_THAT(text, HasSubstr(fmt::format("missed: {:.2f}x on the 436 selection texts, {:.2f}x on the 436 fresh ones",
                                          what.best().chosen_speedup, what.best().speedup)));
  const OrderedJson json = recommendation_json(what, std::span(&run, 1), goal);
  EXPECT_TRUE(json["met"].get<bool>());
  EXPECT_FALSE(json["met_fresh"].get<bool>());
  EXPECT_FALSE(json["use"]["meets_fresh"].get<bool>());
  EXPECT_EQ(json["use"]["missed_by"].get<double>(), what.best().missed_by);
}

TEST(Recommend, ReportsLossExceededOnReportRows) {
  const ExitTrace trace = read_trace(real_trace("rte-exeunt.dev"));
  const ExitTrace part = split_for_calibration(trace, 42, {.fit = 0.25, .certify = 0.25}).report;
  const ExitTrace bad = spoiled(trace, part.index, true);
  const Goal goal{.max_drop = 0.05, .certify = false};
  const Recommendation what = recommend_one(bad, goal);
  ASSERT_TRUE(what.met);
  EXPECT_FALSE(what.met_fresh);
  EXPECT_NEAR(what.best().missed_by, what.best().loss_mean - 0.05, 1e-9);
  EXPECT_LE(what.best().chosen_loss, 0.05);
  const RunOnTrial run = trial_of(bad);
  const std::string text = all_text(what, std::span(&run, 1), goal);
  EXPECT_THAT(text, HasSubstr(fmt::format("\n  on fresh texts {:.2f} % changed, {:.2f} points over the 5 % asked for",
                                          100 * what.best().loss_mean, 100 * what.best().missed_by)));
  EXPECT_THAT(text, HasSubstr("more held-out texts, or a smaller --max-drop"));
}

TEST(Recommend, ReportsNoMissIfTargetIsMet) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const Goal goal{.max_drop = 0.01};
  const Recommendation what = recommend_one(trace, goal);
  ASSERT_LE(what.best().loss_mean, 0.01);
  EXPECT_TRUE(what.met_fresh);
  const RunOnTrial run = trial_of(trace);
  EXPECT_THAT(all_text(what, std::span(&run, 1), goal), Not(HasSubstr("fresh")));
  EXPECT_FALSE(recommendation_json(what, std::span(&run, 1), goal)["use"].contains("missed_by"));
}

TEST(Recommend, ExplainsChoiceByFiguresOfSelectionRows) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  const RunOnTrial run = trial_of(trace);
  for (const Goal& goal : {Goal{.speedup = 3.0}, Goal{.max_drop = 0.02, .certify = false}}) {
    const Recommendation what = recommend_one(trace, goal);
    const Alternative& best = what.best();
    const auto next = std::find_if(what.options.begin(), what.options.end(),
                                   [&](const Alternative& one) { return one.meets && one.family != best.family; });
    ASSERT_NE(next, what.options.end());
    const std::string text = all_text(what, std::span(&run, 1), goal);
    for (const Alternative& one : {best, *next}) {
      EXPECT_THAT(
          text,
          HasSubstr(goal.speedup
                        ? fmt::format("accuracy {:.2f} at {:.2f}x", 100 * one.chosen_quality, one.chosen_speedup)
                        : fmt::format("{:.2f}x with {:.2f} % changed", one.chosen_speedup, 100 * one.chosen_loss)));
    }
    EXPECT_THAT(text, HasSubstr("; next is " + str(next->policy)));
  }
}

// Rows that certify are overwritten: what looked well where it was chosen fails there, and full depth is left.
TEST(Recommend, FallsBackToFullDepthIfCertificateFails) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const ExitTrace bad = spoiled(trace, split_for_calibration(trace, 42).certify.index, true);
  const Goal goal{.max_drop = 0.01};
  const Recommendation what = recommend_one(bad, goal);
  EXPECT_FALSE(what.met);
  EXPECT_FALSE(what.met_fresh);
  EXPECT_TRUE(what.best().calibration.has_value());
  EXPECT_TRUE(what.nearest.has_value());
  const RunOnTrial run = trial_of(bad);
  const RecommendationText text = explained(what, std::span(&run, 1), goal);
  ASSERT_GT(text.rows.size(), 1U);
  EXPECT_EQ(text.rows.back().front(), "full");
  EXPECT_EQ(text.rows.back().back(), "*");
  for (size_t i = 0; i + 1 < text.rows.size(); ++i) EXPECT_EQ(text.rows[i].back(), "") << "no other replaces it";
}

TEST(Recommend, DoesNotAdviseATrainingComparisonToCompareTrainings) {
  const ExitTrace trace = read_trace(real_trace("rte-exeunt.dev"));
  const Goal goal{.max_drop = 0.001};
  const Recommendation what = recommend_one(trace, goal);
  ASSERT_FALSE(what.met);
  const RunOnTrial run = trial_of(trace);
  EXPECT_THAT(all_text(what, std::span(&run, 1), goal), HasSubstr("--recipe auto"));
  for (const std::string& note : explained(what, std::span(&run, 1), goal, Asker::train).notes)
    EXPECT_THAT(note, Not(HasSubstr("--recipe auto")));
}

// Exits that know nothing: whatever rule looks best was lucky, and only fresh rows show it.
TEST(Recommend, ReportIsUnbiasedBySelection) {
  double chosen = 0, reported = 0;
  constexpr int kSeeds = 80;
  for (int seed = 0; seed < kSeeds; ++seed) {
    ExitTrace trace = random_trace({.rows = 60, .exits = 4, .classes = 2, .seed = static_cast<unsigned>(seed)});
    std::mt19937 random(static_cast<unsigned>(seed) + 1000);
    std::normal_distribution<float> noise;
    for (float& logit : trace.logits) logit = noise(random);
    const Recommendation what = recommend_one(trace, {.speedup = 2.0});
    chosen += what.best().chosen_quality / kSeeds;
    reported += what.best().quality / kSeeds;
  }
  EXPECT_GT(chosen, 0.54);
  // 80 · 30 rows of a fair coin: three standard errors are 0.03.
  EXPECT_NEAR(reported, 0.5, 0.03);
}

TEST(Recommend, CertifiesDropLikeCalibrate) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const Goal goal{.max_drop = 0.01};
  const Recommendation what = recommend_one(trace, goal);
  ASSERT_TRUE(what.met);
  ASSERT_TRUE(what.certified);
  EXPECT_EQ(what.certify_rows, 3049U);
  CalibrationPlan plan;
  plan.families = {what.best().family};
  plan.exits = what.best().policy.exits;
  plan.tries = 1;
  const Calibration own = calibrate(split_for_calibration(trace, 42, shares_for(trace, plan, {})), plan);
  EXPECT_EQ(own.outcomes.front().policy, what.best().policy);
  EXPECT_LT(what.best().loss_bounds.low, what.best().loss_bounds.high);
  for (size_t i = 1; i < what.options.size(); ++i)
    EXPECT_FALSE(what.options[i].calibration.has_value()) << "one certificate alone is tried";
  for (const Alternative& one : what.options) EXPECT_GE(what.best().chosen_speedup, one.chosen_speedup * 0.999);
  const RunOnTrial run = trial_of(trace);
  EXPECT_THAT(all_text(what, std::span(&run, 1), goal),
              HasSubstr("promise: at most 1 % of answers to requests differ"));
}

// Other certify rows change what passes, never what is chosen: neither the family nor the exits, by layers or by time.
TEST(Recommend, ChoosesNothingByTheCertifyRows) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const ExitTrace bad = spoiled(trace, split_for_calibration(trace, 42).certify.index, true);
  for (const bool timed : {false, true}) {
    const auto recommended = [&](const ExitTrace& rows) {
      RunOnTrial run = trial_of(rows);
      run.scoring.milliseconds = [](int exit, int, const std::vector<int>& evaluated) {
        const auto asked = std::upper_bound(evaluated.begin(), evaluated.end(), exit + 1) - evaluated.begin();
        return static_cast<double>(exit + 1) + 0.3 * static_cast<double>(asked);
      };
      return recommend(std::span(&run, 1), {.max_drop = 0.01, .timed = timed}, 42);
    };
    const Recommendation one = recommended(trace), other = recommended(bad);
    EXPECT_TRUE(one.certified);
    EXPECT_FALSE(other.certified) << "the certify rows decide what passes";
    ASSERT_EQ(one.options.size(), other.options.size());
    for (size_t i = 0; i < one.options.size(); ++i) {
      EXPECT_EQ(one.options[i].family, other.options[i].family) << i;
      EXPECT_EQ(one.options[i].chosen_speedup, other.options[i].chosen_speedup) << i;
    }
    EXPECT_EQ(one.best().calibration->entry.exits, other.best().calibration->entry.exits);
  }
}

// The drop in accuracy is certified where there are labels.
TEST(Recommend, CertifiesADropInAccuracy) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const Recommendation drop = recommend_one(trace, {.max_drop = 0.02, .loss = RiskLoss::zero_one_drop});
  ASSERT_TRUE(drop.met);
  EXPECT_TRUE(drop.certified);
  EXPECT_GT(drop.best().speedup, 3);
}

TEST(Recommend, CountsTheOneCertificateItTries) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const RunOnTrial run = trial_of(trace);
  int asked = 0;
  const auto fourth = [&](const CalibrationData& data, CalibrationPlan& plan) {
    EXPECT_EQ(data.certify.rows, 3049U);
    plan.tries = 4;
    ++asked;
  };
  const Recommendation what = recommend(std::span(&run, 1), {.max_drop = 0.01}, 42, fourth);
  EXPECT_EQ(asked, 1);
  ASSERT_TRUE(what.best().calibration.has_value());
  EXPECT_EQ(what.best().calibration->entry.certificate->tries, 4);
  // What is left of delta may be too little for the rows: said, and nothing is certified.
  const auto hundredth = [&](const CalibrationData&, CalibrationPlan& plan) { plan.tries = 100; };
  const Recommendation late = recommend(std::span(&run, 1), {.max_drop = 0.01}, 42, hundredth);
  EXPECT_FALSE(late.certified);
  EXPECT_THAT(late.uncertified, HasSubstr("try 100 on these texts"));
  EXPECT_THAT(all_text(late, std::span(&run, 1), {.max_drop = 0.01}), HasSubstr("not certified: not enough data"));
}

// Rows that choose a setting flatter it: nothing is said of an average.
TEST(Recommend, PromisesNothingWithoutACertificate) {
  const ExitTrace trace = read_trace(real_trace("rte-exeunt.dev"));
  const Goal goal{.max_drop = 0.01};
  const RunOnTrial run = trial_of(trace);
  const std::string text = all_text(recommend_one(trace, goal), std::span(&run, 1), goal);
  EXPECT_THAT(text, HasSubstr("Nothing is guaranteed"));
  for (const char* word : {"hold on average", "conformal"}) EXPECT_THAT(text, Not(HasSubstr(word)));
}

TEST(Recommend, IsCautiousWithFewRows) {
  const ExitTrace trace = read_trace(real_trace("rte-exeunt.dev"));
  // 138 rows choose: not one loss of them would show less than 1 / 139.
  EXPECT_FALSE(recommend_one(trace, {.max_drop = 0.007}).met);
  EXPECT_TRUE(recommend_one(trace, {.max_drop = 0.0075}).met);
  ASSERT_TRUE(recommend_one(trace, {.max_drop = 0.007}).nearest.has_value());
  EXPECT_DOUBLE_EQ(recommend_one(trace, {.max_drop = 0.007}).nearest->max_drop, 0.01);
}

TEST(Recommend, ReportsRowsNeededForACertificate) {
  const ExitTrace trace = read_trace(real_trace("rte-exeunt.dev"));
  const Goal goal{.max_drop = 0.01};
  const Recommendation what = recommend_one(trace, goal);
  EXPECT_FALSE(what.certified);
  EXPECT_EQ(what.certify_rows, 0U);
  EXPECT_EQ(what.rows_for_certificate, 515) << "of which 60 % are 309, what 1 % takes at 0.9 of 5 %";
  const RunOnTrial run = trial_of(trace);
  EXPECT_THAT(all_text(what, std::span(&run, 1), goal), HasSubstr("needs at least 515 texts, and there are 277"));
}

TEST(Recommend, ReturnsNearestIfSpeedUpIsOutOfReach) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  const Goal goal{.speedup = 20.0};
  const Recommendation what = recommend_one(trace, goal);
  EXPECT_FALSE(what.met);
  EXPECT_DOUBLE_EQ(what.fastest, 12);
  EXPECT_DOUBLE_EQ(what.best().chosen_speedup, 12) << "out at the first of twelve layers";
  const RunOnTrial run = trial_of(trace);
  const std::string text = all_text(what, std::span(&run, 1), goal);
  EXPECT_THAT(text, HasSubstr("20x cannot be met; the nearest is "));
  EXPECT_THAT(text, HasSubstr("12.00x, the maximum"));
}

TEST(Recommend, ReturnsNextMaxDropIfTargetIsOutOfReach) {
  // One exit before the last, which is another opinion in every tenth row, and never unsure of itself.
  ExitTrace trace = random_trace({.rows = 1000, .exits = 2, .classes = 2});
  for (size_t row = 0; row < trace.rows; ++row) {
    const float side = row % 2 == 0 ? 5.0F : -5.0F;
    const float first = row % 10 == 0 ? -side : side;
    const float logits[] = {first, 0, side, 0};
    std::copy_n(logits, 4, trace.logits.begin() + static_cast<ptrdiff_t>(4 * row));
    trace.gold[row] = row % 2 == 0 ? 0 : 1;
  }
  const Goal goal{.max_drop = 0.01};
  const Recommendation what = recommend_one(trace, goal);
  EXPECT_FALSE(what.met);
  EXPECT_EQ(what.best().family, "full");
  ASSERT_TRUE(what.nearest.has_value());
  EXPECT_DOUBLE_EQ(what.nearest->max_drop, 0.2) << "a tenth is lost, and 10 % could not be certified";
  EXPECT_DOUBLE_EQ(what.nearest->speedup, 2);
  const RunOnTrial run = trial_of(trace);
  EXPECT_THAT(all_text(what, std::span(&run, 1), goal), HasSubstr("--max-drop 20%, for about 2.00x"));
}

TEST(Recommend, ReturnsFullDepthForModelWithOneExit) {
  const ExitTrace trace = random_trace({.rows = 400, .exits = 1, .classes = 2});
  for (const Goal& goal : {Goal{.speedup = 2.0}, Goal{.max_drop = 0.05}}) {
    const Recommendation what = recommend_one(trace, goal);
    EXPECT_FALSE(what.met);
    EXPECT_EQ(what.best().family, "full");
    const RunOnTrial run = trial_of(trace);
    EXPECT_THAT(all_text(what, std::span(&run, 1), goal), HasSubstr("exeunt train --recipe exeunt"));
  }
}

TEST(Recommend, ChoosesBestOfSeveralRunsAtTheSpeedUp) {
  const ExitTrace readers = read_trace(real_trace("sst2-exeunt.held")),
                  rows = read_trace(real_trace("sst2-elasticbert.held"));
  const RunOnTrial runs[] = {trial_of(rows, "cls"), trial_of(readers, "readers")};
  const Goal goal{.speedup = 3.0};
  const Recommendation what = recommend(runs, goal, 42);
  EXPECT_EQ(what.best().run, 1U);
  EXPECT_EQ(what.full.size(), 2U);
  EXPECT_THAT(all_text(what, runs, goal), HasSubstr("of readers: "));
  const Recommendation loss = recommend(runs, {.max_drop = 0.02}, 42);
  EXPECT_EQ(loss.best().run, 1U);
}

TEST(Recommend, RejectsFastRunWithLowAccuracyAtFullDepth) {
  const ExitTrace good = random_trace({.rows = 1000, .exits = 4, .classes = 2});
  ExitTrace fast = good;  // every exit says the same, and is right in half of the rows
  std::mt19937 random(7);
  for (size_t row = 0; row < fast.rows; ++row) {
    const float side = random() % 2 == 0 ? 5.0F : -5.0F;
    for (size_t exit = 0; exit < 4; ++exit) {
      fast.logits[row * 8 + exit * 2] = side;
      fast.logits[row * 8 + exit * 2 + 1] = 0;
    }
  }
  const RunOnTrial runs[] = {trial_of(fast, "fast"), trial_of(good, "good")};
  const Recommendation what = recommend(runs, {.max_drop = 0.05}, 42);
  EXPECT_EQ(what.best().run, 1U);
  EXPECT_GT(recommend_one(fast, {.max_drop = 0.05}).best().speedup, what.best().speedup)
      << "alone it is the faster one";
}

TEST(Recommend, RejectsRunsOfOtherRows) {
  const ExitTrace one = random_trace({.rows = 100}), longer = random_trace({.rows = 101});
  ExitTrace other = one, numbers = random_trace({.rows = 100, .classes = 1});
  other.gold[3] = std::fmod(one.gold[3] + 1, 3.0F);
  const auto error_with = [&](const ExitTrace& second) {
    const RunOnTrial runs[] = {trial_of(one, "one"), trial_of(second, "two")};
    return error_of([&] { (void)recommend(runs, {.speedup = 2.0}, 42); });
  };
  EXPECT_THAT(error_with(longer).what(), HasSubstr("two: 101 rows"));
  EXPECT_THAT(error_with(other).what(), HasSubstr("row 3 has another label"));
  EXPECT_EQ(error_with(other).code(), Code::bad_file);
  EXPECT_THAT(error_with(numbers).what(), HasSubstr("another kind of problem"));
  ExitTrace bare = one;
  for (float& gold : bare.gold) gold = NAN;
  const RunOnTrial runs[] = {trial_of(bare, "one"), trial_of(bare, "two")};
  EXPECT_THAT(error_of([&] { (void)recommend(runs, {.speedup = 2.0}, 42); }).what(), HasSubstr("the data has none"));
  EXPECT_EQ(error_of([&] { (void)recommend_one(random_trace({.rows = 19}), {.speedup = 2.0}); }).code(), Code::failure);
  EXPECT_THAT(error_of([&] { (void)recommend_one(one, {.speedup = 2.0, .timed = true}); }).what(),
              HasSubstr("no times are known"));
}

TEST(Recommend, WithoutLabelsAgreementIsTheQuality) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  for (float& gold : trace.gold) gold = NAN;
  const Recommendation what = recommend_one(trace, {.speedup = 2.0});
  EXPECT_FALSE(what.labelled);
  EXPECT_TRUE(what.met);
  EXPECT_DOUBLE_EQ(what.best().quality, what.best().score.agreement);
  EXPECT_DOUBLE_EQ(what.best().lost.value, 1 - what.best().score.agreement);
}

TEST(Recommend, CountsTimeIfRequested) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  RunOnTrial run = trial_of(trace);
  // A millisecond a layer, and four for each exit asked: fewer exits are faster.
  run.scoring.milliseconds = [](int exit, int, const std::vector<int>& evaluated) {
    const auto asked = std::upper_bound(evaluated.begin(), evaluated.end(), exit + 1) - evaluated.begin();
    return static_cast<double>(exit + 1) + 4.0 * static_cast<double>(asked);
  };
  const Recommendation what = recommend(std::span(&run, 1), {.speedup = 1.5, .timed = true}, 42);
  ASSERT_TRUE(what.met);
  EXPECT_GE(what.best().chosen_speedup, 1.5);
  EXPECT_NEAR(what.best().speedup, *what.full[0].score.predicted_ms / *what.best().score.predicted_ms, 1e-9);
}

TEST(Recommend, SupportsRegressionByPatience) {
  const ExitTrace trace = read_trace(real_trace("stsb-exeunt.dev"));
  const Recommendation what = recommend_one(trace, {.max_drop = 0.05});
  EXPECT_EQ(what.loss, RiskLoss::abs_diff);
  EXPECT_TRUE(what.met);
  EXPECT_EQ(what.best().family, "patience");
  const RunOnTrial run = trial_of(trace);
  const OrderedJson json = recommendation_json(what, std::span(&run, 1), {.max_drop = 0.05});
  EXPECT_TRUE(json["met"].get<bool>());
  EXPECT_EQ(json["use"]["policy"], str(what.best().policy));
  EXPECT_EQ(json["options"].size(), what.options.size());
}

}  // namespace
}  // namespace exeunt
