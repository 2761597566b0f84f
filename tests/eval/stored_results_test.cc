// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_results.h"

#include "tests/eval/stored_files.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

class StoredResultsFiles : public StoredFiles {};

TEST_F(StoredResultsFiles, AreComparedWithAPaper) {
  write("grid/SST-2-romebert-1.json",
        run("SST-2 romebert", 0, R"([{"layer": 6, "accuracy": 0.9}, {"layer": 12, "accuracy": 0.91}])"));
  const Reached reached = reached_by(read_results(folder()), paper_named("romebert"), "SST-2");
  EXPECT_EQ(reached.rows, 872);
  const auto rows = compare(paper_named("romebert"), reached);
  EXPECT_EQ(rows.size(), 12U);
  EXPECT_NEAR(*rows[5].ours, 0.9, 1e-12);
  EXPECT_EQ(rows[5].reason, "another backbone");
  EXPECT_THROW((void)reached_by(read_results(folder()), paper_named("pabee"), "SST-2"), Error);
}

TEST_F(StoredResultsFiles, SayWhatTheyWereTrainedWithWhereTheyHoldIt) {
  EXPECT_EQ(read_run(folder() / "grid/SST-2-plain-1.json").objective, "");
  write("grid/a.json", run("RTE exeunt", 0, "[]", R"(, "train_samples": 2490)",
                           R"({"stages": [{"objective": {"kind": "linear"}}], "provenance": {"torch": "2.11.0"}})"));
  const StoredRun run = read_run(folder() / "grid/a.json");
  EXPECT_EQ(run.objective, "linear");
  EXPECT_EQ(run.torch, "2.11.0");
  EXPECT_EQ(run.train_rows, 2490);
  EXPECT_EQ(run.steps, 1210);
}

TEST_F(StoredResultsFiles, AreRefusedByNameWhereSomethingIsMissing) {
  const auto message = [&] {
    const Error error = error_of([&] { (void)read_results(folder()); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what());
  };
  write("curves.json", "{}");
  EXPECT_THAT(message(), HasSubstr("curves.json: got an object, want a list of curves"));
  write("curves.json", R"([{"task": "SST-2"}])");
  EXPECT_THAT(message(), HasSubstr("recipe"));
  write("curves.json", R"([{"task": "SST-2", "recipe": "exeunt", "split": "eval", "rows": 3}])");
  EXPECT_THAT(message(), HasSubstr("curves.json: field 'rows': got 3, want a list"));
  write("grid/SST-2-exeunt-2.json", run("SST-2 exeunt", 0, "[]", "", R"({"stages": []})"));
  EXPECT_THAT(message(), HasSubstr("exeunt-2.json: settings: field 'stages': got a list, want a list of stages"));
  write("grid/SST-2-exeunt-2.json", run("SST-2 exeunt", 0, "[]", "", R"({"stages": [{"objective": {}}]})"));
  EXPECT_THAT(message(), HasSubstr("exeunt-2.json: settings: objective: field 'kind' is missing"));
  write("grid/SST-2-exeunt-1.json", run("SST-2 exeunt", 0, "3"));
  EXPECT_THAT(message(), HasSubstr("SST-2-exeunt-1.json: field 'exits': got 3, want a list"));
  std::filesystem::remove_all(folder() / "grid");
  EXPECT_THAT(message(), HasSubstr("got no grid/*.json in it"));
}

}  // namespace
}  // namespace exeunt
