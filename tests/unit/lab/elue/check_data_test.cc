// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/check_data.h"

#include "exeunt/base/sha256.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A folder of data made up row by row.
class Data {
 public:
  std::string add(const std::string& file, const std::string& header, const std::string& row, int rows) {
    std::filesystem::create_directories((scratch_.path() / file).parent_path());
    std::string content = header;
    for (int i = 0; i < rows; ++i) content += row;
    (void)scratch_.write(file, content);
    return content;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
};

const std::string kSst = "sentence\tlabel\n", kSstTest = "index\tsentence\n";
const std::string kPairs = "index\tsentence1\tsentence2\tlabel\n";

TEST(CheckData, ReportsRowsColumnsAndLabelsOfCompleteTask) {
  Data data;
  data.add("WNLI/train.tsv", kPairs, "0\ta\tb\t0\n", 635);
  const std::string dev = data.add("WNLI/dev.tsv", kPairs + "0\ta\tb\t1\n", "0\ta\tb\t0\n", 70);
  data.add("WNLI/test.tsv", "index\tsentence1\tsentence2\n", "0\ta\tb\n", 146);
  const DataReport report = check_data(data.path());
  ASSERT_EQ(report.tasks.size(), 1U);
  const TaskReport& task = report.tasks[0];
  EXPECT_EQ(task.task->name, "WNLI");
  EXPECT_EQ(task.state(), DataState::complete);
  EXPECT_THAT(task.missing, IsEmpty());
  ASSERT_EQ(task.splits.size(), 3U);
  EXPECT_EQ(task.splits[1].rows, 71);
  EXPECT_THAT(task.splits[1].label_counts, ElementsAre(70, 1));
  EXPECT_THAT(task.splits[1].columns, ElementsAre("index", "sentence1", "sentence2", "label"));
  EXPECT_EQ(task.splits[1].sha256, sha256_hex(dev));
  EXPECT_THAT(task.splits[2].label_counts, IsEmpty());
  EXPECT_FALSE(report.broken());
}

TEST(CheckData, FewerRowsOrFilesAreIncompleteNotBroken) {
  Data data;
  data.add("RTE/dev.tsv", kPairs, "0\ta\tb\tentailment\n", 10);
  const DataReport report = check_data(data.path());
  EXPECT_EQ(report.tasks[0].state(), DataState::incomplete);
  EXPECT_EQ(report.tasks[0].splits[0].state, DataState::incomplete);
  EXPECT_EQ(report.tasks[0].splits[0].expected, 277);
  EXPECT_THAT(report.tasks[0].missing, ElementsAre("train.tsv", "test.tsv"));
  EXPECT_FALSE(report.broken());

  data.add("RTE/dev.tsv", kPairs, "0\ta\tb\tentailment\n", 277);
  const DataReport files = check_data(data.path());
  EXPECT_EQ(files.tasks[0].splits[0].state, DataState::complete);
  EXPECT_EQ(files.tasks[0].state(), DataState::incomplete) << "two files are missing";
}

TEST(CheckData, MoreRowsThanTheCompleteFileAreOversized) {
  Data data;
  data.add("WNLI/dev.tsv", kPairs, "0\ta\tb\t1\n", 72);
  EXPECT_EQ(check_data(data.path()).tasks[0].splits[0].state, DataState::oversized);
}

TEST(CheckData, ListsProblemsWithPositionUpToALimit) {
  Data data;
  data.add("SST-2/dev.tsv", kSst + "good\t1\n", "bad\tmaybe\n", 30);
  const DataReport report = check_data(data.path());
  const SplitReport& split = report.tasks[0].splits[0];
  EXPECT_TRUE(report.broken());
  EXPECT_EQ(split.rows, 1);
  EXPECT_EQ(split.skipped, 30);
  EXPECT_EQ(split.problem_count, 30);
  ASSERT_EQ(split.problems.size(), kMaxProblems);
  EXPECT_THAT(split.problems[0], HasSubstr("dev.tsv:3: column 2 ('label'): got label 'maybe'"));
}

TEST(CheckData, ReadsOtherFilesBesideABrokenOne) {
  Data data;
  data.add("SST-2/train.tsv", "", "", 0);
  data.add("SST-2/dev.tsv", kSst, "fine\t1\n", 872);
  const TaskReport task = check_data(data.path()).tasks.at(0);
  EXPECT_EQ(task.splits[0].state, DataState::broken);
  EXPECT_THAT(task.splits[0].problems.at(0), HasSubstr("got an empty file"));
  EXPECT_EQ(task.splits[1].state, DataState::complete);
}

TEST(CheckData, AssignsSharedNamesToTheSuiteWithFittingSizes) {
  Data glue, elue;
  glue.add("SST-2/dev.tsv", kSst, "fine\t1\n", 872);
  elue.add("SST-2/dev.tsv", kSst, "fine\t1\n", 1101);
  EXPECT_EQ(check_data(glue.path()).tasks[0].task->name, "SST-2");
  EXPECT_EQ(check_data(elue.path()).tasks[0].task->name, "elue/SST-2");
}

TEST(CheckData, AssignsSharedNamesByNeighbourFoldersIfSizesTie) {
  const std::string header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", row = "1\t2\t3\ta\tb\n";
  Data alone, beside, under;
  alone.add("MRPC/dev.tsv", header, row, 408);
  beside.add("MRPC/dev.tsv", header, row, 408);
  beside.add("SciTail/dev.tsv", "premise\thypothesis\tlabel\n", "a\tb\t0\n", 3);
  under.add("ELUE data/MRPC/dev.tsv", header, row, 408);
  EXPECT_EQ(check_data(alone.path()).tasks[0].task->name, "MRPC");
  EXPECT_EQ(check_data(beside.path()).tasks[0].task->name, "elue/MRPC");
  EXPECT_EQ(check_data(under.path()).tasks[0].task->name, "elue/MRPC");
}

TEST(CheckData, FindsSeveralTasksInOneFolder) {
  Data data;
  data.add("MNLI/dev_matched.tsv", "sentence1\tsentence2\tgold_label\n", "a\tb\tneutral\n", 5);
  data.add("MNLI/dev_mismatched.tsv", "sentence1\tsentence2\tgold_label\n", "a\tb\tneutral\n", 9832);
  data.add("MNLI/diagnostic.tsv", "index\tsentence1\tsentence2\n", "0\ta\tb\n", 1104);
  const DataReport report = check_data(data.path() / "MNLI/.");
  ASSERT_EQ(report.tasks.size(), 3U);
  EXPECT_EQ(report.tasks[0].task->name, "MNLI");
  EXPECT_EQ(report.tasks[1].task->name, "MNLI-mm");
  EXPECT_EQ(report.tasks[1].splits[0].state, DataState::complete);
  EXPECT_EQ(report.tasks[2].task->name, "AX");
  EXPECT_EQ(report.tasks[2].state(), DataState::complete);
}

TEST(CheckData, AcceptsRowCountsOfAllQqpReleases) {
  const std::string header = "id\tquestion1\tquestion2\tis_duplicate\n";
  Data data;
  data.add("QQP/dev.tsv", header + "short\n", "0\ta\tb\t0\n", 40430);
  const SplitReport split = check_data(data.path()).tasks.at(0).splits.at(0);
  EXPECT_EQ(split.state, DataState::complete);
  EXPECT_EQ(split.skipped, 1);
}

TEST(CheckData, FindsNothingInAFolderWithoutTasks) {
  const Scratch scratch;
  EXPECT_TRUE(check_data(scratch.path()).tasks.empty());
  EXPECT_TRUE(check_data(scratch.path() / "none").tasks.empty());
}

}  // namespace
}  // namespace exeunt
