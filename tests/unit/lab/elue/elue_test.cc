// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/elue.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const Baseline kBaseline{{1000, 60}, {2000, 80}, {4000, 90}};

TEST(Elue, InterpolatesBaselineLinearly) {
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 1000), 60);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 1500), 70);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 2000), 80);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 3000), 85);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 4000), 90);
}

TEST(Elue, ExtrapolatesBaselineAsConstantOrLine) {
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 500), 60);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 9000), 90);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 500, Extrapolate::linear), 50);
  EXPECT_DOUBLE_EQ(baseline_at(kBaseline, 6000, Extrapolate::linear), 100);
}

TEST(Elue, ScoreIsTheMeanGapAtTheSubmittedPoints) {
  const std::vector<CostPoint> points{{1500, 75}, {3000, 88}};  // 5 and 3 above
  const ElueScore score = elue_score(points, kBaseline);
  EXPECT_DOUBLE_EQ(score.score, 4);
  EXPECT_EQ(score.outside, 0);
  EXPECT_EQ(elue_score(std::vector<CostPoint>{{500, 60}, {9000, 90}, {2000, 80}}, kBaseline).outside, 2);
  EXPECT_DOUBLE_EQ(elue_score(std::vector<CostPoint>{{500, 60}}, kBaseline).score, 0);
}

TEST(Elue, ScoresAreRoundedHalfUp) {
  EXPECT_DOUBLE_EQ(elue_score(std::vector<CostPoint>{{1000, 61.005}}, kBaseline).score, 1.01);
  EXPECT_DOUBLE_EQ(elue_score(std::vector<CostPoint>{{1000, 61.0049}}, kBaseline).score, 1.00);
  EXPECT_DOUBLE_EQ(elue_score(std::vector<CostPoint>{{1000, 58.995}}, kBaseline).score, -1.00)
      << "up, not away from zero";
}

TEST(Elue, AreaDoesNotRewardFewerPoints) {
  const std::vector<CostPoint> all{{1000, 65}, {1500, 75}, {2000, 84}, {3000, 88}, {4000, 90}};
  const std::vector<CostPoint> flattering{{2000, 84}};
  EXPECT_GT(elue_score(flattering, kBaseline).score, elue_score(all, kBaseline).score) << "ELUE's own score does";
  EXPECT_LT(elue_score(flattering, kBaseline).area, elue_score(all, kBaseline).area);
  for (size_t left_out = 0; left_out < all.size(); ++left_out) {
    std::vector<CostPoint> some = all;
    some.erase(some.begin() + static_cast<long>(left_out));
    EXPECT_LE(elue_score(some, kBaseline).area, elue_score(all, kBaseline).area);
  }
}

TEST(Elue, AreaOfBaselineAgainstConstantIsArithmetic) {
  // 100 everywhere against 60..80 over the first third and 80..90 over the rest: 101 grid points.
  double sum = 0;
  for (int i = 0; i <= 100; ++i) {
    const double cost = 1000 + 30.0 * i;
    sum += 100 - (cost <= 2000 ? 60 + (cost - 1000) / 50 : 80 + (cost - 2000) / 200);
  }
  EXPECT_NEAR(elue_score(std::vector<CostPoint>{{900, 100}}, kBaseline).area, sum / 101, 0.005);
}

TEST(Elue, AreaUsesBestPointWithinBudget) {
  const std::vector<CostPoint> worse_and_dearer{{1000, 90}, {2000, 70}};
  EXPECT_DOUBLE_EQ(elue_score(worse_and_dearer, kBaseline).area,
                   elue_score(std::vector<CostPoint>{{1000, 90}}, kBaseline).area);
}

TEST(Elue, RejectsNonFinitePoints) {
  EXPECT_EQ(error_of([] { (void)elue_score({}, kBaseline); }).code(), Code::usage);
  EXPECT_EQ(error_of([] { (void)elue_score(std::vector<CostPoint>{{NAN, 1}}, kBaseline); }).code(), Code::usage);
  EXPECT_EQ(error_of([] { (void)elue_score(std::vector<CostPoint>{{1, INFINITY}}, kBaseline); }).code(), Code::usage);
  EXPECT_EQ(error_of([] { (void)elue_score(std::vector<CostPoint>{{0, 1}}, kBaseline); }).code(), Code::usage);
}

TEST(Elue, OverallScoreNeedsAllSixTasks) {
  std::map<std::string, double> scores{{"SST-2", 1}, {"IMDb", 2}, {"SNLI", 3}, {"SciTail", 4}, {"MRPC", 5}};
  EXPECT_EQ(elue_overall(scores), std::nullopt);
  scores["STS-B"] = 6.03;
  EXPECT_DOUBLE_EQ(*elue_overall(scores), 3.51);
}

ElueOutcome outcome_of(const char* task, double score, const char* model = "bert 12x384, 12 exits") {
  return {.task = task, .model = model, .baseline = "ours", .result = {score, 80 + score, 33'000'000}};
}

TEST(Elue, ScoresFilesNameModelBaselineAndExtrapolation) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "s.json";
  EXPECT_EQ(keep_elue_score(path, outcome_of("SST-2", 1), Extrapolate::linear), std::nullopt);
  const ElueScores stored = read_elue_scores(path);
  EXPECT_EQ(stored.model + "|" + stored.baseline + "|" + stored.extrapolate, "bert 12x384, 12 exits|ours|linear");
  EXPECT_EQ(stored.tasks.at("SST-2").performance, 81);
  EXPECT_EQ(stored.tasks.at("SST-2").parameters, 33'000'000);
  for (const std::string& task : elue_tasks())
    if (task != "STS-B") (void)keep_elue_score(path, outcome_of(task.c_str(), 1), Extrapolate::linear);
  EXPECT_DOUBLE_EQ(*keep_elue_score(path, outcome_of("STS-B", 4), Extrapolate::linear), 1.5);
}

TEST(Elue, ScoresFilesRefuseAnotherModelBaselineOrExtrapolation) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "s.json";
  (void)keep_elue_score(path, outcome_of("SST-2", 1), Extrapolate::clamp);
  const std::string before = read_text(path);
  const auto refusal = [&](const ElueOutcome& outcome, Extrapolate beyond) {
    const Error error = error_of([&] { (void)keep_elue_score(path, outcome, beyond); });
    EXPECT_EQ(error.code(), Code::usage);
    return std::string(error.what());
  };
  EXPECT_THAT(refusal(outcome_of("MRPC", 1, "albert 12x768, 12 exits"), Extrapolate::clamp),
              HasSubstr("holds scores of bert 12x384, 12 exits against ours (clamp), got albert 12x768"));
  EXPECT_THAT(refusal(outcome_of("MRPC", 1), Extrapolate::linear), HasSubstr("(linear)"));
  ElueOutcome other = outcome_of("MRPC", 1);
  other.baseline = "theirs";
  EXPECT_THAT(refusal(other, Extrapolate::clamp), HasSubstr("against theirs"));
  EXPECT_EQ(read_text(path), before);
}

BaselineTable parse(const std::string& text) {
  return parse_baseline_table(parse_json(text, "b.json"), "b.json");
}

TEST(Elue, BaselineTableCanBeReplaced) {
  const BaselineTable table = parse(R"({"format":"exeunt.elue_baseline/1","source":"ours",
      "tasks":{"SST-2":[{"mflops":1,"performance":50},{"mflops":2,"performance":60}]}})");
  EXPECT_EQ(table.source, "ours");
  EXPECT_EQ(table.tasks.at("SST-2")[1].performance, 60);
  EXPECT_FALSE(table.shape.has_value());
  EXPECT_THAT(table.remarks, IsEmpty());
}

TEST(Elue, BaselineTableMayRemarkOnItsTasks) {
  const std::string start = R"({"format":"exeunt.elue_baseline/1",
      "tasks":{"SNLI":[{"mflops":1,"performance":50},{"mflops":2,"performance":60}]},"remarks":)";
  EXPECT_THAT(parse(start + R"({"SNLI":"half the rows"}})").remarks, ElementsAre(Pair("SNLI", "half the rows")));
  EXPECT_THAT(error_of([&] { (void)parse(start + R"({"SNLI":5}})"); }).what(),
              HasSubstr("b.json: remarks: field 'SNLI'"));
  // Of a task that the table does not have.
  EXPECT_THAT(error_of([&] { (void)parse(start + R"({"MRPC":"all rows"}})"); }).what(), HasSubstr("MRPC"));
}

TEST(Elue, ModelsOfGteSmallsShapeHaveABaselineBuiltIn) {
  ModelSpec spec{.layers = 12, .hidden = 384, .heads = 12, .inner = 1536, .vocab = 100, .embedding = 384};
  const BaselineTable* table = shipped_baseline(spec);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->source, "gte-small-static");
  for (const char* task : {"SST-2", "MRPC", "STS-B", "IMDb", "SNLI"}) {
    const Baseline& baseline = table->tasks.at(task);
    ASSERT_EQ(baseline.size(), 12U) << task;
    EXPECT_GT(baseline.back().performance, baseline.front().performance + 5) << task;
    // A layer costs the same at every depth; the head and the embeddings come once.
    const double layer = baseline[1].mflops - baseline[0].mflops;
    for (size_t k = 2; k < baseline.size(); ++k) {
      EXPECT_NEAR(baseline[k].mflops - baseline[k - 1].mflops, layer, 2e-3) << task << k;
    }
  }
  EXPECT_THAT(table->remarks,
              ElementsAre(Pair("IMDb", HasSubstr("other rows")), Pair("SNLI", HasSubstr("of 549,367 training rows"))));
  spec.groups = 1;
  EXPECT_EQ(shipped_baseline(spec), nullptr);
  spec.groups = 0;
  spec.layers = 6;
  EXPECT_EQ(shipped_baseline(spec), nullptr);
}

TEST(Elue, RejectsBrokenTables) {
  const auto wrong = [](const std::string& tasks) {
    return error_of([&] { (void)parse(R"({"format":"exeunt.elue_baseline/1","tasks":)" + tasks + "}"); });
  };
  EXPECT_THAT(error_of([] { (void)parse(R"({"format":"x","tasks":{}})"); }).what(), HasSubstr("got the format 'x'"));
  EXPECT_EQ(wrong(R"({"SST2":[]})").hint(), "did you mean 'SST-2'?");
  EXPECT_THAT(
      error_of([] { (void)parse(R"({"format":"exeunt.elue_baseline/1","shape":{"layers":0},"tasks":{}})"); }).what(),
      HasSubstr("b.json: shape: field 'layers'"));
  EXPECT_THAT(wrong("[]").what(), HasSubstr("an object by task"));
  EXPECT_THAT(wrong(R"({"SST-2":[{"mflops":1,"performance":1}]})").what(), HasSubstr("2 to 1000 points"));
  EXPECT_THAT(wrong(R"({"SST-2":[{"mflops":2,"performance":1},{"mflops":2,"performance":1}]})").what(),
              HasSubstr("points of rising cost"));
  EXPECT_THAT(wrong(R"({"SST-2":[{"mflops":-1,"performance":1},{"mflops":2,"performance":1}]})").what(),
              HasSubstr("points of rising cost"));
  EXPECT_THAT(wrong(R"({"SST-2":[{"mflops":1,"perf":1},{"mflops":2,"performance":1}]})").what(),
              HasSubstr("performance"));
}

}  // namespace
}  // namespace exeunt
