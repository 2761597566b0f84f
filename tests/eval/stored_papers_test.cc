// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_papers.h"

#include "tests/eval/stored_files.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

class StoredPapersFiles : public StoredFiles {
 protected:
  [[nodiscard]] std::vector<Reached> reached(std::string_view paper, const std::string& task) const {
    return reached_by(read_results(folder()), paper_named(paper), task);
  }
  [[nodiscard]] static std::string trained(const std::string& name, const std::string& backbone,
                                           const std::string& exits, const std::string& more = "") {
    std::string text = run(name, 0, exits, more);
    return text.insert(1, fmt::format(R"("backbone": "{}", )", backbone));
  }
};

TEST_F(StoredPapersFiles, AnswerExitsWithTheirBackboneNamed) {
  write("grid/SST-2-romebert-1.json",
        trained("SST-2 romebert", "small", R"([{"layer": 6, "accuracy": 0.9}, {"layer": 12, "accuracy": 0.91}])",
                R"(, "train_samples": 60000)"));
  const auto all = reached("romebert", "SST-2");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].rows, 872);
  EXPECT_EQ(all[0].backbone, "small");
  EXPECT_EQ(all[0].seeds, 1);
  EXPECT_EQ(all[0].train_rows, 60000);
  EXPECT_EQ(all[0].all_train_rows, 67349);
  const auto rows = compare(paper_named("romebert"), all[0]);
  EXPECT_EQ(rows.size(), 12U);
  EXPECT_NEAR(*rows[5].ours, 0.9, 1e-12);
  EXPECT_EQ(verdict_text(rows[5]), "within (another backbone, ours learned from fewer rows)");
}

TEST_F(StoredPapersFiles, AreJudgedWhereTheyWereTrainedFromThePapersModel) {
  write("grid/SST-2-romebert-1.json",
        trained("SST-2 romebert", "bert-base-uncased", R"([{"layer": 12, "accuracy": 0.8}])"));
  const auto all = reached("romebert", "SST-2");
  EXPECT_EQ(all.at(0).backbone, "bert-base");
  EXPECT_EQ(compare(paper_named("romebert"), all[0])[11].verdict, Verdict::below);
  write("grid/SST-2-romebert-1.json", run("SST-2 romebert", 0, R"([{"layer": 12, "accuracy": 0.8}])"));
  EXPECT_EQ(verdict_text(compare(paper_named("romebert"), reached("romebert", "SST-2").at(0))[11]),
            "below (unnamed backbone)");
}

// DeeBERT c on RTE is 1.49 times as fast; the curve has a patience there, which is another paper's rule.
TEST_F(StoredPapersFiles, AnswerASpeedByThePapersRuleAlone) {
  write("grid/RTE-deebert-1.json", run("RTE deebert", 0, R"([{"layer": 12, "accuracy": 0.65}])"));
  write("curves.json", R"([{"task": "RTE", "recipe": "deebert", "split": "eval", "rows":
      [{"policy": "entropy:0.1", "score": 64, "layers": 10.9}, {"policy": "patience:5", "score": 57, "layers": 8}]}])");
  const auto row_of = [&](std::string_view method) {
    for (const Comparison& row : compare(paper_named("deebert"), reached("deebert", "RTE").at(0))) {
      if (row.figure->method == method) return row;
    }
    return Comparison{};
  };
  EXPECT_EQ(row_of("DeeBERT a").setting, "entropy:0.1");
  EXPECT_NEAR(*row_of("DeeBERT a").ours, 0.64, 1e-12);
  EXPECT_FALSE(row_of("DeeBERT c").ours.has_value());
  EXPECT_EQ(row_of("DeeBERT c").setting, "");
  EXPECT_EQ(row_of("DeeBERT c").verdict, Verdict::not_measured);
  EXPECT_EQ(row_of("DeeBERT c").reason, "no setting of entropy is near 1.49x; entropy:0.1 is at 1.10x");
  // A replay of the rule has it, with the mean of two seeds.
  write("papers.json", R"([
    {"task": "RTE", "recipe": "deebert", "rows": [{"policy": "entropy:0.6", "layers": 7, "metrics": {"accuracy": 0.6}}]},
    {"task": "RTE", "recipe": "deebert", "rows": [{"policy": "entropy:0.6", "layers": 9, "metrics": {"accuracy": 0.7}}]},
    {"task": "RTE", "recipe": "pabee", "rows": [{"policy": "entropy:0.6", "layers": 1, "metrics": {"accuracy": 0}}]}])");
  EXPECT_EQ(row_of("DeeBERT c").setting, "entropy:0.6");
  EXPECT_NEAR(*row_of("DeeBERT c").ours, 0.65, 1e-12);
  EXPECT_NEAR(*row_of("DeeBERT c").speedup, 1.5, 1e-12);
  write("papers.json", "[]");
  write("curves.json", "[]");
  EXPECT_EQ(row_of("DeeBERT a").reason, "no setting of entropy was measured");
}

// The curves hold one metric; DeeBERT's figures on MRPC are of another.
TEST_F(StoredPapersFiles, SayWhichMetricIsMissing) {
  write("grid/MRPC-deebert-1.json", run("MRPC deebert", 0, R"([{"layer": 12, "f1": 0.9}])"));
  write("curves.json", R"([{"task": "MRPC", "recipe": "deebert", "split": "eval", "rows":
      [{"policy": "entropy:0.1", "score": 85, "layers": 10.3}]}])");
  const auto rows = compare(paper_named("deebert"), reached("deebert", "MRPC").at(0));
  EXPECT_EQ(rows.at(1).setting, "entropy:0.1");
  EXPECT_EQ(verdict_text(rows[1]), "ours has no f1 for it");
}

TEST_F(StoredPapersFiles, AnswerElasticBertWithModelsCutShortAndWithExits) {
  write("grid/elue-MRPC-elasticbert-static6-1.json",
        run("elue-MRPC elasticbert-static", 6, R"([{"layer": 6, "combined_score": 0.85}])"));
  write("grid/elue-MRPC-elasticbert-static12-1.json",
        run("elue-MRPC elasticbert-static", 12, R"([{"layer": 12, "combined_score": 0.87}])"));
  write("grid/MRPC-elasticbert-1.json", run("MRPC elasticbert", 0, R"([{"layer": 6, "combined_score": 0.8},
                                                                       {"layer": 12, "combined_score": 0.9}])"));
  const auto all = reached("elasticbert", "MRPC");
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

TEST_F(StoredPapersFiles, HaveNothingOnMnlisMismatchedSetAndSayIt) {
  write("grid/MNLI-romebert-1.json", run("MNLI romebert", 0, R"([{"layer": 12, "accuracy": 0.8}])"));
  const auto all = reached("romebert", "MNLI");
  ASSERT_EQ(all.size(), 2U);
  const auto rows = compare(paper_named("romebert"), all[1]);
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_EQ(rows[3].setting, "exit 4");
  EXPECT_EQ(verdict_text(rows[3]), "nothing of ours is on MNLI-mm");
  EXPECT_TRUE(comparison_json(rows[3])["tolerance"].is_null());
}

TEST_F(StoredPapersFiles, WithoutARunSayWhatIsStoredAndHowToTrain) {
  write("grid/SST-2-elasticbert-1.json", run("SST-2 elasticbert", 0, R"([{"layer": 12, "accuracy": 0.8}])"));
  Error error = error_of([&] { (void)reached("elasticbert", "RTE"); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("got no stored run of recipe elasticbert-static or elasticbert on RTE"));
  EXPECT_EQ(
      error.hint(),
      "stored: elasticbert-static on MRPC; elasticbert on SST-2; to train it: exeunt reproduce elasticbert --task "
      "RTE --model DIR --data DIR");
  error = error_of([&] { (void)reached("pabee", "RTE"); });
  EXPECT_EQ(error.hint(), "to train it: exeunt reproduce pabee --task RTE --model DIR --data DIR");
}

}  // namespace
}  // namespace exeunt
