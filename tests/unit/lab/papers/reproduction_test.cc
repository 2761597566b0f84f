// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/reproduction.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/recipes/recipe.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A model of BERT-base's shape that scores the same everywhere, measured at three settings.
OurScores reached_with(double score, std::string task = "SST-2") {
  OurScores out{.task = std::move(task), .split = "dev", .backbone = "bert-base", .rows = 872};
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
  ASSERT_EQ(all_papers().size(), 8U);
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
  ModelSpec spec{.family = Family::bert, .layers = 12, .hidden = 768, .heads = 12, .inner = 3072};
  EXPECT_EQ(backbone_name(spec), "bert-base");
  spec.layers = 6;
  EXPECT_EQ(backbone_name(spec), "bert-base-6l");
  spec.inner = 64;
  EXPECT_EQ(backbone_name(spec), "bert 6x768, feed-forward 64");
  spec.inner = 3072;
  spec.heads = 6;
  EXPECT_EQ(backbone_name(spec), "bert 6x768, 6 heads");
  spec = {.family = Family::albert, .layers = 24, .hidden = 1024, .heads = 16, .inner = 4096};
  EXPECT_EQ(backbone_name(spec), "albert-large");
  spec = {.family = Family::bert, .layers = 12, .hidden = 384, .heads = 12, .inner = 1536};
  EXPECT_EQ(backbone_name(spec), "bert 12x384");
}

// recipe.json as the trainer writes it: the recipe with its cases decided, for RoBERTa on MRPC, and how it was run.
Json run_of(const std::string& recipe, const Json& changes = Json::object()) {
  Json out = Json(recipe_json(recipe_for(find_recipe(recipe), "MRPC", 0)));
  for (Json& stage : out.at("stages"))
    if (stage.at("epochs").is_object()) stage["epochs"] = 10;
  out["run"] = {{"precision", "fp32"},  {"max_length", 128}, {"accumulation", 1}, {"world", 1},
                {"max_steps", 0},       {"window", 0},       {"seed", 7},         {"warmup_steps", -1.0},
                {"adam_epsilon", 1e-8}, {"task", "MRPC"}};
  out["provenance"] = {{"device", "cpu"}};
  out.merge_patch(changes);
  return out;
}

TEST(Reproduction, NamesSettingsThatAreNotThePapers) {
  for (const Paper& paper : all_papers())
    EXPECT_THAT(other_settings(paper, run_of(std::string(paper.recipe)), Family::roberta), testing::IsEmpty())
        << paper.name;
  const Json run{{"max_steps", 1}, {"precision", "bf16"}, {"warmup_steps", 10.0}};
  Json other = run_of("deebert", {{"run", run}, {"compat", {{"frozen", "eval"}}}});
  other["stages"][0]["lr"] = other["stages"][1]["lr"] = 0.001;
  other["stages"][1]["epochs"] = 4;
  EXPECT_THAT(
      other_settings(paper_named("deebert"), other, Family::roberta),
      testing::UnorderedElementsAre("lr 0.001, not 2e-05", "epochs 4, not 10", "frozen eval, not train",
                                    "max_steps 1, not 0", "precision bf16, not fp32", "10 warm-up steps, not a share"));
}

// RoBERTa's 10 epochs are not BERT's, nor is MNLI's anchor MRPC's.
TEST(Reproduction, TakesThePapersSettingsForTheFamilyAndTheTask) {
  EXPECT_THAT(other_settings(paper_named("deebert"), run_of("deebert"), Family::bert),
              testing::ElementsAre("epochs 10, not 3"));
  const Json last{{"gradient", {{"anchor", "last"}}}};
  EXPECT_THAT(other_settings(paper_named("romebert"), run_of("romebert", last), Family::roberta),
              testing::ElementsAre("anchor last, not early"));
  Json mnli = run_of("romebert", last);
  mnli["run"]["task"] = "MNLI";
  EXPECT_THAT(other_settings(paper_named("romebert"), mnli, Family::roberta), testing::IsEmpty());
}

TEST(Reproduction, GivesNoVerdictOnOtherSettingsDataOrAConstantAnswer) {
  const auto verdict = [](void (*change)(OurScores&)) {
    OurScores reached = reached_with(0.897);
    change(reached);
    const auto rows = compare(paper_named("romebert"), reached);
    EXPECT_EQ(rows[5].verdict, Verdict::not_comparable);
    return verdict_text(rows[5]);
  };
  EXPECT_EQ(verdict([](OurScores& all) { all.settings = {"lr 0.001, not 2e-05"}; }), "near (other settings)");
  EXPECT_EQ(verdict([](OurScores& all) { all.other_data = true; }), "near (other data)");
  EXPECT_EQ(verdict([](OurScores& all) { all.exits[5].constant = true; }), "near (ours gives all texts one answer)");
  EXPECT_EQ(verdict([](OurScores& all) {
              all.train_rows = 40;
              all.all_train_rows = 67349;
            }),
            "near (ours was trained on fewer rows)");
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
  OurScores elbert = reached_with(0.9);
  elbert.backbone = "albert-large";
  elbert.points.push_back({"nentropy:0.2", 1.5, {{Metric::accuracy, 0.92}}});
  elbert.points.push_back({"window:0.1,8,bias_1", 5.5, {{Metric::accuracy, 0.92}}});
  const auto rows = compare(paper_named("elbert"), elbert);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[1].setting, "nentropy:0.2");
  EXPECT_EQ(verdict_text(rows[1]), "near (another speed)");
  EXPECT_EQ(rows[1].verdict, Verdict::not_comparable);
  // No nentropy:0.4 was measured, and a window is not the entropy alone.
  EXPECT_EQ(rows[2].reason, "no setting of entropy is near 5.52x; entropy:0.25 is at 2.50x");
}

TEST(Reproduction, DistinguishesVariantsOfAPaper) {
  for (const Comparison& row : compare(paper_named("deebert-sd"), reached_with(0.9)))
    EXPECT_EQ(row.figure->method, "DeeBERT+SD");
  OurScores distilled = reached_with(0.9);
  distilled.caveat = paper_named("romebert-sd").caveat;
  const auto rows = compare(paper_named("romebert-sd"), distilled);
  ASSERT_FALSE(rows.empty());
  for (const Comparison& row : rows) {
    EXPECT_EQ(row.figure->method, "RomeBERT");
    EXPECT_EQ(row.verdict, Verdict::not_comparable);
    EXPECT_THAT(row.reason, HasSubstr("no gradient regularization"));
  }
  EXPECT_THAT(tasks_of(paper_named("elbert-equal")), Contains("SST-2"));
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
  OurScores other = reached_with(0.9);
  other.backbone = "bert 12x384";
  const auto rows = compare(paper_named("romebert"), other);
  ASSERT_EQ(rows.size(), 12U);
  for (const Comparison& row : rows) {
    EXPECT_EQ(row.verdict, Verdict::not_comparable);
    EXPECT_EQ(row.reason, "another backbone");
  }
}

TEST(Reproduction, SaysWhereNothingOfOursAnswers) {
  OurScores shallow = reached_with(0.9);
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

// A file with these entries under "results", read for a paper and a task.
std::vector<OurScores> reached(const std::string& entries, std::string_view paper, const std::string& task) {
  const Json scores = parse_json(fmt::format(R"({{"format": "exeunt.scores/1", "results": [{}]}})", entries), "s.json");
  return reached_in(scores, "s.json", paper_named(paper), task);
}

// `more` goes beside task, recipe and exits.
std::string entry(std::string_view task, std::string_view recipe, std::string_view exits, std::string_view more = "") {
  return fmt::format(R"({{"task": "{}", "recipe": "{}", "exits": [{}]{}}})", task, recipe, exits, more);
}

std::string refusal(const std::string& entries, std::string_view paper = "romebert", const std::string& task = "RTE") {
  const Error error = error_of([&] { (void)reached(entries, paper, task); });
  return fmt::format("{} | {}", error.what(), error.hint());
}

constexpr std::string_view kLast = R"({"layer": 12, "accuracy": 0.8})";

TEST(ScoresFile, AnswersExitsWithItsBackboneNamed) {
  const auto all =
      reached(entry("SST-2", "romebert", R"({"layer": 6, "accuracy": 0.9}, {"layer": 12, "accuracy": 0.91})",
                    R"(, "backbone": "small", "seeds": 3, "train_rows": 60000)"),
              "romebert", "SST-2");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].rows, 872);
  EXPECT_EQ(all[0].backbone, "small");
  EXPECT_EQ(all[0].seeds, 3);
  EXPECT_EQ(all[0].train_rows, 60000);
  EXPECT_EQ(all[0].all_train_rows, 67349);
  const auto rows = compare(paper_named("romebert"), all[0]);
  EXPECT_EQ(rows.size(), 12U);
  EXPECT_NEAR(*rows[5].ours, 0.9, 1e-12);
  EXPECT_EQ(verdict_text(rows[5]), "near (another backbone, ours was trained on fewer rows)");
}

TEST(ScoresFile, IsJudgedWhereItIsOfThePapersModel) {
  const auto all =
      reached(entry("SST-2", "romebert", kLast, R"(, "backbone": "bert-base-uncased")"), "romebert", "SST-2");
  EXPECT_EQ(all.at(0).backbone, "bert-base");
  EXPECT_EQ(compare(paper_named("romebert"), all[0])[11].verdict, Verdict::below);
  const auto unnamed = reached(entry("SST-2", "romebert", kLast), "romebert", "SST-2");
  EXPECT_EQ(verdict_text(compare(paper_named("romebert"), unnamed.at(0))[11]), "below (unnamed backbone)");
}

// DeeBERT c on RTE is 1.49 times as fast; the file has a patience there, which is another paper's rule.
TEST(ScoresFile, AnswersASpeedByThePapersRuleAlone) {
  const auto row_of = [&](std::string_view method, std::string_view settings) {
    const auto all =
        reached(entry("RTE", "deebert", kLast, fmt::format(R"(, "settings": [{}])", settings)), "deebert", "RTE");
    for (const Comparison& row : compare(paper_named("deebert"), all.at(0))) {
      if (row.figure->method == method) return row;
    }
    return Comparison{};
  };
  constexpr std::string_view kTwo = R"({"policy": "entropy:0.1", "layers": 10.9, "accuracy": 0.64},
                                       {"policy": "patience:5", "layers": 8, "accuracy": 0.57})";
  EXPECT_EQ(row_of("DeeBERT a", kTwo).setting, "entropy:0.1");
  EXPECT_NEAR(*row_of("DeeBERT a", kTwo).ours, 0.64, 1e-12);
  EXPECT_FALSE(row_of("DeeBERT c", kTwo).ours.has_value());
  EXPECT_EQ(row_of("DeeBERT c", kTwo).setting, "");
  EXPECT_EQ(row_of("DeeBERT c", kTwo).verdict, Verdict::not_measured);
  EXPECT_EQ(row_of("DeeBERT c", kTwo).reason, "no setting of entropy is near 1.49x; entropy:0.1 is at 1.10x");
  constexpr std::string_view kNear = R"({"policy": "entropy:0.6", "layers": 8, "accuracy": 0.65})";
  EXPECT_EQ(row_of("DeeBERT c", kNear).setting, "entropy:0.6");
  EXPECT_NEAR(*row_of("DeeBERT c", kNear).ours, 0.65, 1e-12);
  EXPECT_NEAR(*row_of("DeeBERT c", kNear).speedup, 1.5, 1e-12);
  EXPECT_EQ(row_of("DeeBERT a", "").reason, "no setting of entropy was measured");
  constexpr std::string_view kOther = R"({"policy": "entropy:0.1", "layers": 10.9, "f1": 0.85, "loss": 3})";
  EXPECT_EQ(verdict_text(row_of("DeeBERT a", kOther)), "ours has no accuracy for it");
}

TEST(ScoresFile, AnswersElasticBertWithModelsCutShortAndWithExits) {
  const auto two = [](double six, double twelve) {
    return fmt::format(R"({{"layer": 6, "combined_score": {}}}, {{"layer": 12, "combined_score": {}}})", six, twelve);
  };
  const auto all = reached(entry("elue/MRPC", "elasticbert-static", two(0.85, 0.87), R"(, "cut_short": true)") + ", " +
                               entry("MRPC", "elasticbert", two(0.8, 0.9)) + ", " + entry("MRPC", "pabee", two(0, 0)),
                           "elasticbert", "MRPC");
  ASSERT_EQ(all.size(), 2U);
  const auto cut = compare(paper_named("elasticbert"), all[0]), whole = compare(paper_named("elasticbert"), all[1]);
  ASSERT_EQ(cut.size(), 3U);  // 12 layers on dev, 6 on dev and on test
  EXPECT_EQ(cut[0].setting, "12 layers");
  EXPECT_NEAR(*cut[0].ours, 0.87, 1e-12);
  EXPECT_EQ(cut[1].setting, "6 layers");
  EXPECT_NEAR(*cut[1].ours, 0.85, 1e-12);
  EXPECT_THAT(cut[1].reason, HasSubstr("ours is on ELUE's data"));
  ASSERT_EQ(whole.size(), 3U);
  EXPECT_EQ(whole[0].setting, "exit 12 of elasticbert");
  EXPECT_EQ(whole[1].setting, "exit 6 of elasticbert");
  EXPECT_NEAR(*whole[1].ours, 0.8, 1e-12);
  EXPECT_THAT(whole[1].reason, HasSubstr("all exits trained together"));
}

TEST(ScoresFile, ShowsMnlisMismatchedSetWhetherItHasItOrNot) {
  const std::string matched = entry("MNLI", "romebert", kLast);
  auto all = reached(matched, "romebert", "MNLI");
  ASSERT_EQ(all.size(), 2U);
  auto rows = compare(paper_named("romebert"), all[1]);
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_EQ(rows[3].setting, "exit 4");
  EXPECT_EQ(verdict_text(rows[3]), "nothing of ours is on MNLI-mm");
  EXPECT_TRUE(comparison_json(rows[3])["tolerance"].is_null());
  all = reached(entry("MNLI-mm", "romebert", R"({"layer": 12, "accuracy": 0.7})") + ", " + matched, "romebert", "MNLI");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].task, "MNLI");
  EXPECT_NEAR(*compare(paper_named("romebert"), all[1])[11].ours, 0.7, 1e-12);
}

TEST(ScoresFile, WithoutWhatIsAskedForSaysWhatItHasAndHowToTrain) {
  const std::string held =
      entry("elue/MRPC", "elasticbert-static", kLast) + ", " + entry("SST-2", "elasticbert", kLast);
  EXPECT_EQ(
      refusal(held, "elasticbert"),
      "s.json: got no scores of recipe elasticbert-static or elasticbert on RTE | it has: elasticbert-static on MRPC; "
      "elasticbert on SST-2; to train it: exeunt reproduce elasticbert --task RTE --model DIR --data DIR");
  EXPECT_THAT(refusal(held), HasSubstr(" | to train it: exeunt reproduce romebert --task RTE --model DIR --data DIR"));
}

TEST(ScoresFile, IsRefusedByFieldWhereItIsWrong) {
  EXPECT_THAT(refusal(entry("RTF", "romebert", kLast)),
              HasSubstr("s.json: field 'task': got RTF, want a task of GLUE"));
  EXPECT_THAT(refusal(entry("RTE", "romebert", "")), HasSubstr("field 'exits': got a list, want a list of exits"));
  EXPECT_THAT(refusal(entry("RTE", "romebert", R"({"accuracy": 1})")),
              HasSubstr("s.json: exits: field 'layer' is missing"));
  EXPECT_THAT(refusal(entry("RTE", "romebert", R"({"layer": 12}, {"layer": 6})")),
              HasSubstr("field 'layer': got 6, want a deeper exit than the one before"));
  EXPECT_THAT(refusal(entry("RTE", "romebert", kLast, R"(, "settings": 3)")),
              HasSubstr("field 'settings': got 3, want a list of settings"));
  EXPECT_THAT(refusal(entry("RTE", "romebert", kLast, R"(, "settings": [{"policy": "entropy:1", "layers": 0}])")),
              HasSubstr("s.json: settings: field 'layers': got 0, want a number above 0"));
  EXPECT_THAT(refusal(entry("RTE", "romebert", kLast, R"(, "seed": 3)")), HasSubstr("seeds"));
  const auto whole = [](std::string_view text) {
    return std::string(
        error_of([&] { (void)reached_in(parse_json(text, "s.json"), "s.json", paper_named("pabee"), "RTE"); }).what());
  };
  EXPECT_THAT(whole(R"({"results": []})"), HasSubstr("field 'format' is missing"));
  EXPECT_THAT(whole(R"({"format": "exeunt.scores/2", "results": []})"),
              HasSubstr("field 'format': got 'exeunt.scores/2'"));
  EXPECT_THAT(whole(R"({"format": "exeunt.scores/1", "results": {}})"), HasSubstr("field 'results': got an object"));
}

}  // namespace
}  // namespace exeunt
