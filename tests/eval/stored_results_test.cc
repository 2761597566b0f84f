// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_results.h"

#include "tests/eval/stored_files.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

class StoredResultsFiles : public StoredFiles {};

TEST_F(StoredResultsFiles, SayWhatTheyWereTrainedWithWhereTheyHoldIt) {
  EXPECT_EQ(read_run(folder() / "grid/SST-2-plain-1.json").objective, "");
  write("grid/a.json", run("RTE exeunt", 0, "[]", R"(, "train_samples": 2490)",
                           R"({"stages": [{"objective": {"kind": "linear"}}], "provenance": {"torch": "2.11.0"}})"));
  const StoredRun run = read_run(folder() / "grid/a.json");
  EXPECT_EQ(run.objective, "linear");
  EXPECT_EQ(run.torch, "2.11.0");
  EXPECT_EQ(run.train_rows, 2490);
  EXPECT_EQ(run.steps, 1210);
  EXPECT_EQ(run.backbone + run.attention, "");
  write("grid/b.json", R"({"task": "RTE", "recipe": "exeunt", "seed": 1, "layers": 0, "backbone": "small", "attention":
                           "cudnn", "steps": 1, "results": {"exits": []}})");
  EXPECT_EQ(read_run(folder() / "grid/b.json").backbone, "small");
  EXPECT_EQ(read_run(folder() / "grid/b.json").attention, "cudnn");
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
  write("curves.json", R"([{"task": "SST-2", "recipe": "exeunt", "split": "eval", "rows":
                            [{"policy": "patience:1", "score": 1, "layers": 0}]}])");
  EXPECT_THAT(message(), HasSubstr("curves.json: rows: field 'layers': got 0, want a number above 0"));
  write("curves.json", "[]");
  write("papers.json", "3");
  EXPECT_THAT(message(), HasSubstr("papers.json: got 3, want a list of replays"));
  write("papers.json", R"([{"task": "SST-2", "recipe": "pabee", "rows": {}}])");
  EXPECT_THAT(message(), HasSubstr("papers.json: field 'rows': got an object, want a list"));
  write("papers.json", R"([{"task": "SST-2", "recipe": "pabee", "rows": [{"policy": "patience:1", "layers": -1}]}])");
  EXPECT_THAT(message(), HasSubstr("papers.json: rows: field 'layers': got -1, want a number above 0"));
  write("papers.json", R"([{"task": "SST-2", "recipe": "pabee", "rows":
                            [{"policy": "patience:1", "layers": 2, "metrics": 3}]}])");
  EXPECT_THAT(message(), HasSubstr("papers.json: rows: field 'metrics': got 3, want an object"));
  write("papers.json", "[]");
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
