// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/reproduction.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A model of BERT-base's shape that scores the same everywhere, measured at three settings.
Reached reached_with(double score, std::string task = "SST-2") {
  Reached out{.task = std::move(task), .split = "dev", .backbone = "bert-base", .rows = 872};
  for (int layer = 1; layer <= 12; ++layer)
    out.exits.push_back({layer, {{Metric::accuracy, score}, {Metric::f1, score}, {Metric::combined_score, score}}});
  for (const double speedup : {1.0, 1.25, 2.5})
    out.points.push_back({fmt::format("entropy:{}", speedup / 10), speedup, out.exits.back().metrics});
  out.points.push_back({"patience:6", 1.266, out.exits.back().metrics});
  return out;
}

const Comparison* row_of(const std::vector<Comparison>& rows, std::string_view method, std::optional<int> exit = {}) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Comparison& row) {
    return row.figure->method == method && row.figure->exit == exit;
  });
  return found == rows.end() ? nullptr : &*found;
}

TEST(Reproduction, KnowsEveryPaperAndNamesTheNearest) {
  ASSERT_EQ(all_papers().size(), 5U);
  for (const Paper& paper : all_papers()) EXPECT_FALSE(tasks_of(paper).empty()) << paper.name;
  EXPECT_THAT(tasks_of(paper_named("elbert")), Contains("RTE"));
  EXPECT_THAT(tasks_of(paper_named("romebert")), Contains("MNLI"));  // published on its mismatched set
  try {
    (void)paper_named("debert");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::usage);
    EXPECT_THAT(error.hint(), HasSubstr("deebert"));
  }
}

TEST(Reproduction, NamesABackboneByItsShape) {
  ModelSpec spec{.family = Family::bert, .layers = 12, .hidden = 768};
  EXPECT_EQ(backbone_name(spec), "bert-base");
  spec.layers = 6;
  EXPECT_EQ(backbone_name(spec), "bert-base-6l");
  spec = {.family = Family::albert, .layers = 24, .hidden = 1024};
  EXPECT_EQ(backbone_name(spec), "albert-large");
  spec = {.family = Family::bert, .layers = 12, .hidden = 384};
  EXPECT_EQ(backbone_name(spec), "bert 12x384");
}

// RomeBERT's exit 6 on SST-2 was published as 89.7, read to 0.2; two standard errors on 872 rows are 2.06 points.
TEST(Reproduction, JudgesAnExitWithinTheReadingErrorAndTwoStandardErrors) {
  const double wide = 0.002 + 2 * std::sqrt(0.897 * 0.103 / 872);
  for (const auto& [score, verdict] :
       {std::pair{0.897 + 0.99 * wide, Verdict::within}, std::pair{0.897 + 1.01 * wide, Verdict::above},
        std::pair{0.897 - 0.99 * wide, Verdict::within}, std::pair{0.897 - 1.01 * wide, Verdict::below}}) {
    const auto rows = compare(paper_named("romebert"), reached_with(score));
    ASSERT_EQ(rows.size(), 12U);
    const Comparison* row = row_of(rows, "RomeBERT", 6);
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->verdict, verdict) << score;
    EXPECT_NEAR(row->tolerance, wide, 1e-12);
    EXPECT_EQ(row->setting, "exit 6");
  }
}

TEST(Reproduction, AnswersASpeedWithTheNearestSettingAndATestScoreWithoutAVerdict) {
  // DeeBERT a saves 21 % of the time: 1 / 0.79 = 1.266 times as fast, nearest to 1.25.
  const auto rows = compare(paper_named("deebert"), reached_with(0.9));
  const Comparison* row = row_of(rows, "DeeBERT a");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->setting, "entropy:0.125");  // and not the patience that comes nearer
  EXPECT_EQ(row->verdict, Verdict::not_comparable);
  EXPECT_EQ(row->reason, "theirs is on test");
  EXPECT_EQ(verdict_text(*row), "below (theirs is on test)");
  // DeeBERT c saves 47 %: 1.89 times, which is further than a tenth from 2.5.
  EXPECT_EQ(row_of(rows, "DeeBERT c")->reason, "no setting of entropy is near 1.89x; entropy:0.25 is at 2.50x");
  ASSERT_NE(row_of(rows, "Baseline"), nullptr);
  EXPECT_EQ(row_of(rows, "Baseline")->setting, "full");
  EXPECT_NE(row_of(rows, "DeeBERT", 12), nullptr);  // of RomeBERT's curves, which are on dev
}

// The third party's figures for ELBERT name their thresholds of normalised entropy.
TEST(Reproduction, AnswersAThresholdWithThatThresholdAndSaysThatTheSpeedIsAnother) {
  Reached elbert = reached_with(0.9);
  elbert.backbone = "albert-large";
  elbert.points.push_back({"nentropy:0.2", 1.5, {{Metric::accuracy, 0.92}}});
  elbert.points.push_back({"window:0.1,8,bias_1", 5.5, {{Metric::accuracy, 0.92}}});
  const auto rows = compare(paper_named("elbert"), elbert);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[1].setting, "nentropy:0.2");
  EXPECT_EQ(verdict_text(rows[1]), "within (another speed)");
  EXPECT_EQ(rows[1].verdict, Verdict::not_comparable);
  // No nentropy:0.4 was measured, and a window is not the entropy alone.
  EXPECT_EQ(rows[2].reason, "no setting of entropy is near 5.52x; entropy:0.25 is at 2.50x");
}

TEST(Reproduction, KnowsTheRuleOfEachPaper) {
  for (const Paper& paper : all_papers()) {
    for (const std::string_view settings : paper.settings) {
      const std::string_view rule = settings.substr(0, settings.find(':'));
      EXPECT_TRUE(rule == paper.rule || rule == "nentropy" || rule == "full") << paper.name << ' ' << settings;
    }
  }
}

TEST(Reproduction, ShowsThePapersOwnBackboneWhereOursIsAnother) {
  Reached other = reached_with(0.9);
  other.backbone = "bert 12x384";
  const auto rows = compare(paper_named("romebert"), other);
  ASSERT_EQ(rows.size(), 12U);
  for (const Comparison& row : rows) {
    EXPECT_EQ(row.verdict, Verdict::not_comparable);
    EXPECT_EQ(row.reason, "another backbone");
  }
}

TEST(Reproduction, SaysWhereNothingOfOursAnswers) {
  Reached shallow = reached_with(0.9);
  shallow.exits.resize(3);
  const auto rows = compare(paper_named("romebert"), shallow);
  EXPECT_EQ(row_of(rows, "RomeBERT", 6)->verdict, Verdict::not_measured);
  EXPECT_FALSE(row_of(rows, "RomeBERT", 6)->ours.has_value());
  EXPECT_EQ(verdict_text(*row_of(rows, "RomeBERT", 6)), "ours has no exit 6");
  EXPECT_TRUE(comparison_json(*row_of(rows, "RomeBERT", 6))["ours"].is_null());
  EXPECT_TRUE(compare(paper_named("elbert"), reached_with(0.9, "MRPC")).empty());
}

TEST(Reproduction, WidensCorrelationsByTheirOwnFormula) {
  PublishedFigure figure;
  figure.metric = Metric::matthews_correlation;
  figure.score = 0.6;
  EXPECT_NEAR(tolerance_of(figure, 1043), 2 * (1 - 0.36) / std::sqrt(1043), 1e-12);
}

}  // namespace
}  // namespace exeunt
