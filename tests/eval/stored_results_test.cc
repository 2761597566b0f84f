// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_results.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "tests/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two seeds of one recipe with two exits, a plain model, and curves: every figure below is arithmetic over these.
class StoredResultsFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder() / "grid");
    write("grid/SST-2-plain-1.json", run("SST-2 plain", 0, R"([{"layer": 12, "accuracy": 0.92}])",
                                         R"(, "exits_held-out": [{"layer": 12, "accuracy": 0.94}])"));
    write("grid/SST-2-exeunt-1.json",
          run("SST-2 exeunt", 0, R"([{"layer": 1, "accuracy": 0.80}, {"layer": 12, "accuracy": 0.91}])"));
    write("grid/SST-2-exeunt-2.json",
          run("SST-2 exeunt", 0, R"([{"layer": 1, "accuracy": 0.84}, {"layer": 12, "accuracy": 0.93}])"));
    write("grid/MRPC-exeunt-1.json", run("MRPC exeunt", 0,
                                         R"([{"layer": 1, "accuracy": 0.70, "f1": 0.80},
                                             {"layer": 12, "accuracy": null, "f1": null}])"));
    write("grid/elue-MRPC-elasticbert-static3-1.json",
          run("elue-MRPC elasticbert-static", 3, R"([{"layer": 3, "accuracy": 0.75, "f1": 0.85}])"));
    write("curves.json", R"([
      {"task": "SST-2", "recipe": "exeunt", "seed": 1, "split": "held-out", "rows":
        [{"policy": "entropy:0.1", "score": 94.0, "layers": 6.0},
         {"policy": "entropy:0.2", "score": 93.5, "layers": 4.0},
         {"policy": "entropy:0.3", "score": 93.4, "layers": 3.0}]},
      {"task": "SST-2", "recipe": "exeunt", "seed": 1, "split": "eval", "rows":
        [{"policy": "entropy:0.2", "score": 91.0, "layers": 4.0},
         {"policy": "patience:2", "score": 90.0, "layers": 5.0}]},
      {"task": "SST-2", "recipe": "exeunt", "seed": 2, "split": "eval", "rows":
        [{"policy": "entropy:0.2", "score": 92.0, "layers": 4.0},
         {"policy": "patience:2", "score": 91.0, "layers": 5.5}]}])");
  }

  // `name` is "SST-2 plain": task and recipe.
  static std::string run(const std::string& name, int layers, const std::string& exits, const std::string& more = "") {
    const size_t blank = name.find(' ');
    return fmt::format(R"({{"task": "{}", "recipe": "{}", "seed": 1, "layers": {}, "steps": 10, "results": )"
                       R"({{"exits": {}{}}}}})",
                       name.substr(0, blank), name.substr(blank + 1), layers, exits, more);
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder() / name) << text; }
  [[nodiscard]] std::filesystem::path folder() const { return scratch_.path(); }

  static const ResultTable& named(const std::vector<ResultTable>& tables, std::string_view title) {
    for (const ResultTable& table : tables)
      if (table.title == title) return table;
    throw std::runtime_error("no table " + std::string(title));
  }

 private:
  Scratch scratch_;
};

TEST_F(StoredResultsFiles, BecomeTablesOfMeansOverSeeds) {
  const auto tables = result_tables(read_results(folder()));
  const ResultTable& exits = named(tables, "SST-2: accuracy");
  ASSERT_EQ(exits.rows.size(), 2U);
  EXPECT_THAT(exits.rows[1], ElementsAre("`exeunt`", "2", "82.0", "", "", "", "", "", "", "", "", "", "", "92.0"));
  EXPECT_THAT(named(tables, "MRPC: accuracy and f1").rows[0],
              ElementsAre("`exeunt`", "1", "75.0", "", "", "", "", "", "", "", "", "", "", "–"));
  EXPECT_THAT(named(tables, "SST-2, patience").rows[0], ElementsAre("`exeunt`", "90.5 at 5.2"));
  const ResultTable& cut = named(tables, "Models cut short");
  EXPECT_EQ(cut.rows[0][0], "MRPC");
  EXPECT_EQ(cut.rows[0][3], "80.0");
}

TEST_F(StoredResultsFiles, ChooseTheEarliestThresholdThatLosesAtMostHalfAPointOnHeldOutRows) {
  const ResultTable table = named(result_tables(read_results(folder())), "SST-2: a threshold chosen on held-out rows");
  EXPECT_THAT(table.remark, HasSubstr("94.0 on the held-out rows, 92.0 on dev"));
  const auto row = std::find_if(table.rows.begin(), table.rows.end(), [](const auto& r) { return r[0] == "`exeunt`"; });
  ASSERT_NE(row, table.rows.end());
  EXPECT_THAT(*row, ElementsAre("`exeunt`", "2", "`entropy:0.2`", "93.5", "91.5 (-0.5)", "4.00", "3.00×"));
  EXPECT_THAT(table.rows.front(), ElementsAre("`deebert`", "0", "none", "", "", "", ""));
}

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

TEST_F(StoredResultsFiles, AreRefusedByNameWhereSomethingIsMissing) {
  const auto message = [&] {
    try {
      (void)read_results(folder());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_file);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  write("curves.json", "{}");
  EXPECT_THAT(message(), HasSubstr("curves.json: got an object, want a list of curves"));
  write("curves.json", R"([{"task": "SST-2"}])");
  EXPECT_THAT(message(), HasSubstr("recipe"));
  write("grid/SST-2-exeunt-1.json", run("SST-2 exeunt", 0, "3"));
  EXPECT_THAT(message(), HasSubstr("SST-2-exeunt-1.json: field 'exits': got 3, want a list"));
  std::filesystem::remove_all(folder() / "grid");
  EXPECT_THAT(message(), HasSubstr("got no grid/*.json in it"));
}

TEST(ResultTable, BecomesMarkdown) {
  EXPECT_EQ(markdown({.title = "T", .remark = "R.", .header = {"a", "b"}, .rows = {{"1", ""}}}),
            "### T\nR.\n\n| a | b |\n| --- | --- |\n| 1 |  |\n");
}

}  // namespace
}  // namespace exeunt
