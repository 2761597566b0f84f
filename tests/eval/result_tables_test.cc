// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/result_tables.h"

#include <algorithm>

#include "tests/eval/stored_files.h"

namespace exeunt {

// Rows are compared by what they show.
bool operator==(const Cell& a, const Cell& b) {
  return a.text == b.text;
}
void PrintTo(const Cell& cell, std::ostream* out) {
  *out << '"' << cell.text << '"';
}

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ResultTableFiles : public StoredFiles {
 protected:
  [[nodiscard]] ResultSection section(std::string_view name) const {
    return section_named(read_results(folder()), name);
  }
  [[nodiscard]] ResultTable only(std::string_view name) const {
    const ResultSection found = section(name);
    EXPECT_EQ(found.tables.size(), 1U) << name;
    return found.tables.front();
  }
  [[nodiscard]] ResultTable titled(std::string_view name, std::string_view title) const {
    for (const ResultTable& table : section(name).tables)
      if (table.title == title) return table;
    throw std::runtime_error("no table " + std::string(title));
  }
  // What a section or phrase that cannot be made says.
  [[nodiscard]] std::string refusal(std::string_view name) const {
    const StoredResults results = read_results(folder());
    const std::vector<std::string> phrases = phrase_names();
    const bool phrase = std::find(phrases.begin(), phrases.end(), name) != phrases.end();
    const Error error =
        error_of([&] { phrase ? (void)phrase_named(results, name) : (void)section_named(results, name); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what()) + " | " + error.hint();
  }
  [[nodiscard]] std::string phrase(std::string_view name) const { return phrase_named(read_results(folder()), name); }

  void write_trial(std::string_view task, std::string_view change, int seed, std::string_view exits) const {
    write(fmt::format("trials/{}-{}-{}.json", task, change, seed),
          fmt::format(R"({{"task": "{}", "change": "{}", "seed": {}, "exits": [{}]}})", task, change, seed, exits));
  }
  // Three seeds on both tasks whose first exit has `first` and whose last has `last`.
  void write_change(std::string_view change, double first, double last) const {
    const auto exits = [](double one, double two, std::string_view more) {
      return fmt::format(R"({{"layer": 1, "accuracy": {0}{2}}}, {{"layer": 12, "accuracy": {1}{2}}})", one, two, more);
    };
    for (int seed = 0; seed < 3; ++seed) {
      write_trial("RTE", change, seed, exits(first, last, ""));
      write_trial("MRPC", change, seed, exits(first, last, R"(, "f1": 0.8)"));
    }
  }
};

TEST_F(ResultTableFiles, AreMeansOverSeeds) {
  const ResultTable exits = titled("exits", "SST-2: accuracy");
  ASSERT_EQ(exits.rows.size(), 2U);
  EXPECT_THAT(exits.rows[1], ElementsAre("`exeunt`", "2", "82.0", "", "", "", "", "", "", "", "", "", "", "92.0"));
  EXPECT_THAT(titled("exits", "MRPC: accuracy and f1").rows[0],
              ElementsAre("`exeunt`", "1", "75.0", "", "", "", "", "", "", "", "", "", "", "–"));
  EXPECT_THAT(titled("policies", "SST-2, patience").rows[0], ElementsAre("`exeunt`", "90.5 at 5.2"));
  EXPECT_THAT(titled("policies", "SST-2, patience").rows[0][1].numbers, ElementsAre(90.5, 5.25));
  const ResultTable cut = only("cut-short");
  EXPECT_EQ(cut.rows[0][0].text, "MRPC");
  EXPECT_EQ(cut.rows[0][3].text, "80.0");
}

TEST_F(ResultTableFiles, ChooseTheEarliestThresholdThatLosesAtMostHalfAPointOnHeldOutRows) {
  const ResultTable table = only("chosen");
  EXPECT_THAT(table.remark, HasSubstr("94.0 on the held-out rows, 92.0 on dev"));
  EXPECT_THAT(table.rows.back(), ElementsAre("`exeunt`", "2", "`entropy:0.2`", "93.5", "91.5 (-0.5)", "4.00", "3.00×"));
  EXPECT_THAT(table.rows.front(), ElementsAre("`deebert`", "0", "none", "", "", "", ""));
}

TEST_F(ResultTableFiles, PutExitsBesideAnotherProgramsWhereBothHaveThem) {
  write("reference.json", R"([{"task": "SST-2", "recipe": "exeunt", "layer": 12, "score": 91.0},
                              {"task": "SST-2", "recipe": "plain", "layer": 12, "score": 93.0},
                              {"task": "MRPC", "recipe": "exeunt", "layer": 1, "score": 72.5},
                              {"task": "MRPC", "recipe": "exeunt", "layer": 12, "score": 80.0},
                              {"task": "RTE", "recipe": "exeunt", "layer": 12, "score": 60.0}])");
  const ResultTable table = only("beside");
  EXPECT_EQ(table.remark, "Over all 3 cells the mean difference is +0.83.");  // (1 - 1 + 2.5) / 3
  EXPECT_THAT(table.header, ElementsAre("recipe", "MRPC L1", "SST-2 L12"));
  EXPECT_THAT(table.rows, ElementsAre(ElementsAre("`plain`", "", "92.0 (-1.0)"),
                                      ElementsAre("`exeunt`", "75.0 (+2.5)", "92.0 (+1.0)")));
  write("reference.json", R"([{"task": "SST2", "recipe": "exeunt", "layer": 12, "score": 91.0}])");
  EXPECT_THAT(refusal("beside"), AllOf(HasSubstr("reference.json: field 'task': got 'SST2'"), HasSubstr("SST-2")));
  write("reference.json", R"([{"task": "SST-2", "recipe": "exeunt", "layer": 12}])");
  EXPECT_THAT(refusal("beside"), HasSubstr("reference.json: field 'score' is missing"));
  write("reference.json", "7");
  EXPECT_THAT(refusal("beside"), HasSubstr("reference.json: got 7, want a list of scores"));
}

TEST_F(ResultTableFiles, SortWhatWasTriedByItsGainOverTheTasks) {
  write_change("worse", 0.4, 0.6);
  write_change("better", 0.5, 0.8);
  write_change("sum", 0.5, 0.7);
  write_trial("RTE", "unfinished", 0, R"({"layer": 12, "accuracy": 0.9})");
  // MRPC's score is the mean of accuracy and 0.8: a change of 10 points of accuracy is one of 5 there, of 7.5 over
  // both.
  const ResultTable table = only("tried");
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_THAT(table.rows[0], ElementsAre("sum", "75.0", "70.0", "70.0", "60.0", "+0.0", "+0.0"));
  EXPECT_THAT(table.rows[1], ElementsAre("better", "80.0", "72.5", "80.0", "65.0", "+7.5", "+3.8"));
  EXPECT_THAT(table.rows[2], ElementsAre("worse", "70.0", "65.0", "60.0", "50.0", "-7.5", "-7.5"));
}

TEST_F(ResultTableFiles, RefuseTrialsThatCannotBeCompared) {
  EXPECT_THAT(refusal("tried"), AllOf(HasSubstr("got no trials/*.json in it, want what the table 'tried' is made of"),
                                      HasSubstr("benchmarks/trials makes others")));
  write_change("better", 0.5, 0.8);
  EXPECT_THAT(refusal("tried"), HasSubstr("trials: got no change 'sum' with 3 seeds on MRPC and RTE"));
  write_trial("RTE", "sum", 0, R"({"layer": 12, "accuracy": null})");
  EXPECT_THAT(refusal("tried"), HasSubstr("RTE-sum-0.json: exit 12: got no accuracy, want a number"));
  write_trial("RTE", "sum", 0, "");
  EXPECT_THAT(refusal("tried"), HasSubstr("RTE-sum-0.json: field 'exits': got an empty list, want at least one exit"));
}

TEST_F(ResultTableFiles, TellObjectivesApartByTheRecipeThatTheRunKept) {
  const auto with = [](const char* kind) {
    return fmt::format(R"({{"stages": [{{"objective": {{"kind": "{}"}}}}]}})", kind);
  };
  const auto exits = [](double one, double two) {
    return fmt::format(R"([{{"layer": 1, "accuracy": {}}}, {{"layer": 12, "accuracy": {}}}])", one, two);
  };
  write("grid/RTE-exeunt-1.json", run("RTE exeunt", 0, exits(0.5, 0.6), "", with("linear")));
  write("objectives/RTE-sum-1.json", run("RTE exeunt", 0, exits(0.4, 0.5), "", with("sum")));
  write("objectives/RTE-sum-2.json", run("RTE exeunt", 0, exits(0.4, 0.7), "", with("sum")));
  const ResultTable table = only("objectives");
  EXPECT_THAT(table.rows[0], ElementsAre("RTE", "60.0", "50.0", "60.0", "55.0"));
  EXPECT_THAT(table.rows[1], ElementsAre("MRPC", "–", "–", "–", "–"));
}

TEST_F(ResultTableFiles, GiveSpeedsFromTheNewestFile) {
  const auto speeds = [](double ours, const char* tokens) {
    return fmt::format(R"({{"device": "a card", "rows": [{{"batch": 32, "tokens": {}, "ratio": 9,
      "ours": {{"samples_per_second": {}}}, "torch": {{"samples_per_second": 500, "version": "2.0"}}}}]}})",
                       tokens, ours);
  };
  write("2026-01-01-x-speed.json", speeds(1, "128"));
  write("2026-02-01-x-speed.json", speeds(1250.4, "\"real\""));
  EXPECT_THAT(only("speed").rows, ElementsAre(ElementsAre("32 × real", "1250", "500", "2.50×")));
  EXPECT_THAT(only("speed").remark, AllOf(HasSubstr("on one a card, bf16"), HasSubstr("plain PyTorch 2.0 loop")));
  write("2026-03-01-x-speed.json", speeds(0, "128"));
  EXPECT_THAT(refusal("speed"), HasSubstr("rows: ours: field 'samples_per_second': got 0, want more than 0"));
  write("2026-03-01-x-speed.json", speeds(1, "\"long\""));
  EXPECT_THAT(refusal("speed"),
              HasSubstr("2026-03-01-x-speed.json: rows: field 'tokens': got \"long\", want a whole number or 'real'"));
  write("2026-03-01-x-speed.json", R"({"device": "a card", "rows": []})");
  EXPECT_THAT(refusal("speed"), HasSubstr("field 'rows': got a list, want a list of measurements"));
}

TEST_F(ResultTableFiles, ShowEverySecondStepOfTheWatchedExit) {
  const auto watched = [](int seed, std::string_view last) {
    std::string curve;
    for (int step = 1; step <= 6; ++step) curve += fmt::format("[{}, [0, 0, 0, 0, 0, 0.{}]], ", step, step);
    return fmt::format(R"({{"seed": {}, "rows": 67349, "curve": [{}{}]}})", seed, curve, last);
  };
  constexpr std::string_view kLast = "[7, [0, 0, 0, 0, 0, 0.7]]";
  write("pabee-watched.json", fmt::format("[{}, {}]", watched(1, kLast), watched(2, kLast)));
  EXPECT_THAT(only("watched").header, ElementsAre("seed", "step 5", "step 7"));
  EXPECT_THAT(only("watched").rows[1], ElementsAre("2", "50.0", "70.0"));
  EXPECT_EQ(phrase("watched-rows"), "67,349");
  write("pabee-watched.json", fmt::format("[{}, {}]", watched(1, kLast), watched(2, "[9, [0, 0, 0, 0, 0, 0.7]]")));
  EXPECT_THAT(refusal("watched"), HasSubstr("pabee-watched.json: seed 2: got other steps or rows than seed 1"));
  write("pabee-watched.json", fmt::format("[{}]", watched(1, "[7, [0.7]]")));
  EXPECT_THAT(refusal("watched"), HasSubstr("field 'curve': got a list as number 7, want [step, scores of at least 6"));
  write("pabee-watched.json", R"([{"seed": 1, "rows": 5, "curve": {}}])");
  EXPECT_THAT(refusal("watched"), HasSubstr("field 'curve': got an object, want a list of steps"));
  write("pabee-watched.json", "[]");
  EXPECT_THAT(refusal("watched-rows"), HasSubstr("got no run in pabee-watched.json"));
}

TEST_F(ResultTableFiles, CountRunsThatEndedInNaNByAttentionAndLaunch) {
  write("attention.json", R"([
    {"recipe": "pabee", "seed": 42, "attention": "efficient", "graphs": true, "ended": true, "error": null},
    {"recipe": "pabee", "seed": 42, "attention": "cudnn", "graphs": true, "ended": false, "error": "at step 4"},
    {"recipe": "pabee", "seed": 42, "attention": "cudnn", "graphs": true, "ended": true, "error": null},
    {"recipe": "pabee", "seed": 42, "attention": "cudnn", "graphs": true, "ended": false, "error": "at step 2"},
    {"recipe": "pabee", "seed": 42, "attention": "cudnn", "graphs": false, "ended": true, "error": null}])");
  EXPECT_THAT(
      only("attention").rows,
      ElementsAre(ElementsAre("cuDNN's", "one graph a step", "pabee, seed 42", "3", "2", "at step 4, at step 2"),
                  ElementsAre("cuDNN's", "operation by operation", "pabee, seed 42", "1", "0", ""),
                  ElementsAre("memory-efficient", "one graph a step", "pabee, seed 42", "1", "0", "")));
  write("attention.json", R"([{"recipe": "pabee", "seed": 1, "attention": "flash", "graphs": true, "ended": true}])");
  EXPECT_THAT(refusal("attention"), HasSubstr("attention.json: field 'attention': got 'flash'"));
  write("attention.json", R"([{"recipe": "pabee", "seed": 1, "attention": "cudnn", "graphs": 1, "ended": true}])");
  EXPECT_THAT(refusal("attention"), HasSubstr("attention.json: field 'graphs': got 1, want true or false"));
}

TEST_F(ResultTableFiles, AreLeftOutOrRefusedByNameWithoutTheirFiles) {
  std::vector<std::string> names;
  for (const ResultSection& found : all_sections(read_results(folder()))) names.push_back(found.name);
  EXPECT_THAT(names, ElementsAre("chosen", "exits", "policies", "cut-short"));
  std::filesystem::remove(folder() / "curves.json");
  for (const std::string& name : section_names()) {
    if (name == "exits" || name == "cut-short") continue;
    EXPECT_THAT(refusal(name), HasSubstr(fmt::format("want what the table '{}' is made of", name)));
  }
  const Error error = error_of([&] { (void)section("exit"); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_STREQ(error.what(), "unknown table 'exit'");
  EXPECT_EQ(error.hint(), "did you mean 'exits'?");
}

TEST_F(ResultTableFiles, HaveTheirCountsAsWords) {
  EXPECT_EQ(phrase("runs"), "5 runs with 6,050 steps");
  EXPECT_EQ(phrase("seeds"), "2.0 on SST-2");
  EXPECT_THAT(refusal("torch"), HasSubstr("got no run in grid that says which LibTorch trained it"));
  EXPECT_THAT(refusal("held-out-rows"), HasSubstr("on how many rows of SST-2 it was trained"));
  const auto trained = [&](int rows, const char* torch) {
    return run("SST-2 pabee", 0, "[]", fmt::format(R"(, "train_samples": {})", rows),
               fmt::format(R"({{"provenance": {{"torch": "{}"}}}})", torch));
  };
  write("grid/SST-2-pabee-1.json", trained(66349, "2.11.0"));
  EXPECT_EQ(phrase("held-out-rows"), "1,000");  // SST-2 has 67,349
  EXPECT_EQ(phrase("torch"), "LibTorch 2.11.0");
  write("grid/SST-2-pabee-2.json", trained(67349, "2.12.0"));
  EXPECT_EQ(phrase("torch"), "LibTorch 2.11.0 and 2.12.0");
  EXPECT_THAT(refusal("held-out-rows"), HasSubstr("got runs of SST-2 on 66349 and 67349 rows, want one number"));
  std::filesystem::remove(folder() / "grid/SST-2-exeunt-2.json");
  EXPECT_THAT(refusal("seeds"), HasSubstr("what a second seed of its recipe and task reaches"));
}

TEST_F(ResultTableFiles, CountTheRunsOfAKernel) {
  EXPECT_THAT(refusal("cudnn-runs"), HasSubstr("without 'attention', want the kernel it was trained with"));
  std::filesystem::remove_all(folder() / "grid");
  const auto keep = [&](const std::string& task, int layers, const std::string& kernel) {
    write(fmt::format("grid/{}-{}-{}.json", task, layers, kernel),
          run(task + " plain", layers, "[]").insert(1, fmt::format(R"("attention": "{}", )", kernel)));
  };
  for (const char* kernel : {"cudnn", "efficient"}) keep("RTE", 0, kernel);
  keep("CoLA", 0, "efficient");
  keep("elue-MRPC", 3, "cudnn");
  EXPECT_EQ(phrase("cudnn-runs"), "2 of the 4 runs (RTE: 1 of 2, models cut short: 1 of 1)");
}

TEST(ResultTable, BecomesMarkdownAndJson) {
  const ResultTable first{.title = "T", .remark = "R.", .header = {"a", "b"}, .rows = {{{"1.2", {1.23}}, ""}}};
  EXPECT_EQ(markdown(first), "### T\nR.\n\n| a | b |\n| --- | --- |\n| 1.2 |  |\n");
  const ResultTable second{.header = {"c"}, .rows = {{"x"}}};
  const ResultSection section{.name = "n", .title = "S", .tables = {first, second}};
  EXPECT_EQ(markdown(section), markdown(first) + "\n| c |\n| --- |\n| x |\n");
  const OrderedJson json = table_json(section, second);
  EXPECT_EQ(json["title"], "S");
  EXPECT_EQ(table_json(section, first)["numbers"].dump(), "[[[1.23],[]]]");
}

}  // namespace
}  // namespace exeunt
