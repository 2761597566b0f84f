// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/task.h"

#include <algorithm>
#include <set>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Task, EveryTaskOfBothSuitesIsInTheTable) {
  std::vector<std::string> names;
  for (const Task& task : all_tasks()) names.emplace_back(task.name);
  EXPECT_THAT(names,
              ElementsAre("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "MNLI-mm", "QNLI", "RTE", "WNLI", "AX",
                          "elue/SST-2", "elue/IMDb", "elue/SNLI", "elue/SciTail", "elue/MRPC", "elue/STS-B"));
}

TEST(Task, NamesIgnoreCaseAndPunctuation) {
  for (const char* name : {"SST-2", "sst2", "sst-2", "SST_2", "glue/sst-2", "GLUE SST2", "sst"}) {
    EXPECT_EQ(find_task(name).name, "SST-2") << name;
  }
  for (const char* name : {"elue/SST-2", "elue_sst2", "ELUE-SST-2"}) EXPECT_EQ(find_task(name).name, "elue/SST-2");
  EXPECT_EQ(find_task("stsb").name, "STS-B");
  EXPECT_EQ(find_task("mnli-m").name, "MNLI");
  EXPECT_EQ(find_task("mnli_mismatched").name, "MNLI-mm");
  EXPECT_EQ(find_task("diagnostic").name, "AX");
  EXPECT_EQ(find_task("imdb").name, "elue/IMDb");
  EXPECT_EQ(find_task("SciTail").name, "elue/SciTail");
}

TEST(Task, RejectsUnknownNameWithSuggestion) {
  const Error error = error_of([] { (void)find_task("mrcp"); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("unknown task 'mrcp'"));
  EXPECT_EQ(error.hint(), "did you mean 'MRPC'?");
  EXPECT_THAT(error_of([] { (void)find_task("something else"); }).hint(), HasSubstr("known: CoLA, SST-2"));
  EXPECT_EQ(find_task_or_null(""), nullptr);
  EXPECT_EQ(find_task_or_null("glue"), nullptr);
}

TEST(Task, NamesAreUnique) {
  std::set<std::string> seen;
  for (const Task& task : all_tasks()) {
    EXPECT_TRUE(seen.insert(plain_name(task.name)).second) << task.name;
    for (const auto alias : task.aliases) {
      EXPECT_TRUE(seen.insert(std::string(alias)).second) << alias;
      EXPECT_EQ(alias, plain_name(alias));
    }
  }
}

TEST(Task, EveryRowIsConsistent) {
  for (const Task& task : all_tasks()) {
    EXPECT_NE(std::find(task.metrics.begin(), task.metrics.end(), task.primary), task.metrics.end()) << task.name;
    EXPECT_EQ(task.regression(), task.range.has_value()) << task.name;
    EXPECT_EQ(task.submission.empty(), task.suite == Suite::elue) << task.name;
    EXPECT_FALSE(task.folders.empty()) << task.name;
    const bool pairs = task.splits.front().pair.wanted();
    for (const SplitFile& file : task.splits) {
      EXPECT_GT(file.rows, 0) << task.name;
      EXPECT_TRUE(file.text.wanted()) << task.name;
      EXPECT_EQ(file.pair.wanted(), pairs) << task.name;
      EXPECT_EQ(file.label.wanted(), file.split != Split::test) << task.name;
      EXPECT_EQ(task.find(file.split), &file) << task.name << " has two files of one split";
    }
  }
}

TEST(Task, LabelOrdersAreThoseOfTheOriginals) {
  EXPECT_THAT(find_task("mnli").labels, ElementsAre("contradiction", "entailment", "neutral"));
  EXPECT_THAT(find_task("rte").labels, ElementsAre("entailment", "not_entailment"));
  EXPECT_THAT(find_task("qnli").labels, ElementsAre("entailment", "not_entailment"));
  EXPECT_THAT(find_task("wnli").labels, ElementsAre("0", "1"));
  EXPECT_THAT(find_task("snli").labels, ElementsAre("0", "1", "2"));
  EXPECT_TRUE(find_task("sts-b").regression());
}

TEST(Task, MnliModelsAnswerDiagnosticAndMismatchedSets) {
  EXPECT_EQ(find_task("ax").model_of, "MNLI");
  EXPECT_EQ(find_task("mnli-mm").model_of, "MNLI");
  EXPECT_EQ(find_task("mnli-mm").find(Split::train), nullptr);
  EXPECT_EQ(find_task("ax").labels, find_task("mnli").labels);
}

TEST(Task, SplitsHaveNames) {
  EXPECT_EQ(split_named("train"), Split::train);
  EXPECT_EQ(split_named("validation"), Split::dev);
  EXPECT_EQ(name_of(split_named("test")), "test");
  const Error error = error_of([] { (void)split_named("tset"); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_EQ(error.hint(), "did you mean 'test'?");
}

}  // namespace
}  // namespace exeunt
