// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/dataset.h"

#include <cmath>

#include "exeunt/base/sha256.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Dataset parse(const char* task, Split split, std::string_view bytes, const OnBadRow& on_bad_row = {}) {
  return parse_split(find_task(task), split, bytes, "f.tsv", on_bad_row);
}

Error error_in(const char* task, Split split, std::string_view bytes) {
  Error error = error_of([&] { (void)parse(task, split, bytes); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error;
}

TEST(Dataset, SentencesKeepTheirBlanksAndQuotes) {
  const Dataset data = parse("sst-2", Split::train, "sentence\tlabel\nhide \"new\" secretions \t0\nfine\t1\n");
  ASSERT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.examples[0].text, "hide \"new\" secretions ");
  EXPECT_FALSE(data.examples[0].pair);
  EXPECT_EQ(data.examples[0].gold, 0);
  EXPECT_EQ(data.examples[1].gold, 1);
  EXPECT_EQ(data.examples[1].index, 1);
  EXPECT_TRUE(data.labelled);
  EXPECT_THAT(data.columns, ElementsAre("sentence", "label"));
  EXPECT_THAT(data.notices, IsEmpty());
  EXPECT_EQ(data.task, "SST-2");
  EXPECT_EQ(data.split, "train");
}

TEST(Dataset, TestSplitsHaveNoGold) {
  const Dataset data = parse("sst-2", Split::test, "index\tsentence\n0\tuneasy mishmash\n");
  EXPECT_EQ(data.examples[0].text, "uneasy mishmash");
  EXPECT_TRUE(std::isnan(data.examples[0].gold));
  EXPECT_FALSE(data.labelled);
}

TEST(Dataset, ColaHasNoHeaderAndMayLackTheFinalNewline) {
  const Dataset data = parse("cola", Split::dev, "gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tThe rode sailors.");
  ASSERT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.examples[0].text, "The sailors rode.");
  EXPECT_EQ(data.examples[0].gold, 1);
  EXPECT_EQ(data.examples[1].gold, 0);
  EXPECT_THAT(data.columns, IsEmpty());
}

TEST(Dataset, StripsByteOrderMarkAndCrLf) {
  const Dataset data =
      parse("mrpc", Split::train, "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t5\t6\tabc\tdef\r\n");
  EXPECT_THAT(data.notices, IsEmpty());
  EXPECT_EQ(data.examples[0].text, "abc");
  EXPECT_EQ(data.examples[0].pair, "def");
  EXPECT_EQ(data.examples[0].gold, 1);
}

TEST(Dataset, ColumnsAreFoundByNameInFilesWithFewerColumns) {
  const Dataset data = parse("mnli", Split::dev, "index\tsentence1\tsentence2\tgold_label\n0\tp\th\tneutral\n");
  EXPECT_EQ(data.examples[0].text, "p");
  EXPECT_EQ(data.examples[0].pair, "h");
  EXPECT_EQ(data.examples[0].gold, 2);
  EXPECT_THAT(data.notices, IsEmpty());
}

TEST(Dataset, FallsBackToColumnNumberWithNotice) {
  const Dataset data = parse("rte", Split::dev, "id\tpremise\tsentence2\tgold\n0\tp\th\tnot_entailment\n");
  EXPECT_EQ(data.examples[0].text, "p");
  EXPECT_EQ(data.examples[0].gold, 1);
  ASSERT_EQ(data.notices.size(), 2U);
  EXPECT_EQ(data.notices[0], "f.tsv: no column 'sentence1' in the header, column 2 ('premise') is used");
}

TEST(Dataset, LabelIsTheLastFieldEvenInRowsWithMoreFields) {
  const Dataset data = parse("qnli", Split::train, "index\tquestion\tsentence\tlabel\n0\tq\ts\textra\tentailment\n");
  EXPECT_EQ(data.examples[0].pair, "s");
  EXPECT_EQ(data.examples[0].gold, 0);
}

TEST(Dataset, SimilarityIsANumberFromZeroToFive) {
  const char* header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  const auto row = [](const char* score) { return std::string("0\tg\tf\t2012\t1\tn\tn\ta\tb\t") + score + "\n"; };
  const Dataset data = parse("sts-b", Split::train, header + row("3.800"));
  EXPECT_EQ(data.problem, Problem::regression);
  EXPECT_FLOAT_EQ(data.examples[0].gold, 3.8F);
  EXPECT_EQ(data.examples[0].text, "a");
  EXPECT_THAT(error_in("sts-b", Split::train, header + row("5.1")).what(),
              HasSubstr("f.tsv:2: column 10 ('score'): got 5.1, want a number from 0 to 5"));
  EXPECT_THAT(error_in("sts-b", Split::train, header + row("n/a")).what(),
              HasSubstr("got 'n/a', want a finite number"));
}

TEST(Dataset, ReadsLayoutsOfElue) {
  const Dataset snli = parse("snli", Split::dev, "\xEF\xBB\xBFpremise\thypothesis\tlabel\r\na\tb\t2\r\n");
  EXPECT_EQ(snli.examples[0].text, "a");
  EXPECT_EQ(snli.examples[0].gold, 2);
  const Dataset sts = parse("elue/sts-b", Split::dev, "sentence1\tsentence2\tlabel\na\tb\t5.000\n");
  EXPECT_FLOAT_EQ(sts.examples[0].gold, 5);
  const Dataset test = parse("scitail", Split::test, "index\tpremise\thypothesis\n0\ta\tb\n");
  EXPECT_EQ(test.examples[0].pair, "b");
}

TEST(Dataset, RejectsShortRowWithLineAndColumn) {
  const Error error = error_in("rte", Split::train, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\ta\n");
  EXPECT_STREQ(error.what(), "f.tsv:3: got 2 columns, want 4: 'sentence2' is missing");
  EXPECT_THAT(error.hint(), HasSubstr("TAB"));
}

TEST(Dataset, QuestionPairsWithTooFewColumnsAreSkippedAndCounted) {
  const Dataset data =
      parse("qqp", Split::train,
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\t1\n4\t5\n\n6\t7\t8\tc\td\t0\n");
  ASSERT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.skipped, 2);
  EXPECT_EQ(data.examples[1].index, 3);
}

TEST(Dataset, EmptyLinesCountOnlyInsideTheFile) {
  EXPECT_EQ(parse("sst-2", Split::dev, "sentence\tlabel\na\t1\n\n\n").examples.size(), 1U);
  EXPECT_THAT(error_in("sst-2", Split::dev, "sentence\tlabel\na\t1\n\n\nb\t0\n").what(),
              HasSubstr("f.tsv:3: got 1 columns, want 2"));
}

TEST(Dataset, RejectsUnknownLabelWithLineAndColumn) {
  const Error error = error_in("rte", Split::dev, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailmnet\n");
  EXPECT_STREQ(error.what(),
               "f.tsv:2: column 4 ('label'): got label 'entailmnet', want one of entailment, not_entailment");
  EXPECT_EQ(error.hint(), "did you mean 'entailment'?");
}

TEST(Dataset, RejectsInvalidUtf8WithLineAndColumn) {
  EXPECT_STREQ(error_in("sst-2", Split::dev, "sentence\tlabel\nfine\t1\ncaf\xE9 noir\t1\n").what(),
               "f.tsv:3: column 1 ('sentence'): byte 4 is 0xE9, want valid UTF-8");
}

TEST(Dataset, RejectsHeaderWithTooFewColumns) {
  const Error error = error_in("mrpc", Split::train, "Quality,#1 ID,#2 ID\n1,2,3\n");
  EXPECT_THAT(error.what(), HasSubstr("f.tsv:1: got 1 columns, want 4 for column '#1 String'"));
  EXPECT_THAT(error.hint(), HasSubstr("TAB"));
}

TEST(Dataset, RejectsFilesWithoutRows) {
  EXPECT_THAT(error_in("sst-2", Split::dev, "").what(), HasSubstr("got an empty file"));
  EXPECT_THAT(error_in("sst-2", Split::dev, "sentence\tlabel\n\n").what(), HasSubstr("got no row of data"));
  EXPECT_THAT(error_in("sst-2", Split::dev, std::string_view("\xFF\xFEs\0", 4)).what(), HasSubstr("UTF-16"));
}

TEST(Dataset, BadRowsCanBeCollectedInstead) {
  std::vector<std::string> problems;
  const auto note = [&](const Error& error) { problems.emplace_back(error.what()); };
  const Dataset data = parse("sst-2", Split::dev, "sentence\tlabel\na\t1\nb\t2\nc\nd\t0\n", note);
  EXPECT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.skipped, 2);
  EXPECT_EQ(data.examples[1].index, 3);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_THAT(problems[0], HasSubstr("f.tsv:3"));
  EXPECT_THAT(problems[1], HasSubstr("f.tsv:4"));
}

TEST(Dataset, FilesAreFoundInTheTasksFolderOrAboveIt) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "SST-2");
  const std::string content = "sentence\tlabel\na\t1\n";
  (void)scratch.write("SST-2/dev.tsv", content);
  for (const auto& folder : {scratch.path(), scratch.path() / "SST-2"}) {
    const Dataset data = read_split(find_task("sst2"), Split::dev, folder);
    EXPECT_EQ(data.examples.size(), 1U);
    EXPECT_EQ(data.sha256, sha256_hex(content));
  }
  const Error error = error_of([&] { (void)read_split(find_task("sst2"), Split::train, scratch.path()); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("no train.tsv of task SST-2 here or in SST-2"));
  EXPECT_THAT(error.hint(), HasSubstr("download_glue_data"));
}

TEST(Dataset, FindsDiagnosticSetInTheFolderOfMnli) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "MNLI");
  (void)scratch.write("MNLI/diagnostic.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n");
  EXPECT_EQ(read_split(find_task("ax"), Split::test, scratch.path()).examples[0].pair, "b");
}

TEST(Dataset, RejectsSplitThatTheTaskLacks) {
  const Error error = error_of([] { (void)read_split(find_task("mnli-mm"), Split::train, "."); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_STREQ(error.what(), "task MNLI-mm has no train split");
  EXPECT_EQ(error.hint(), "train MNLI instead");
}

TEST(Dataset, ReordersGoldByLabelName) {
  Dataset data = parse("mnli", Split::dev,
                       "sentence1\tsentence2\tgold_label\na\tb\tneutral\na\tb\tcontradiction\na\tb\tentailment\n");
  reorder_labels(data, {"contradiction", "neutral", "entailment"});
  EXPECT_EQ(data.examples[0].gold, 1);
  EXPECT_EQ(data.examples[1].gold, 0);
  EXPECT_EQ(data.examples[2].gold, 2);
  const Error error = error_of([&] { reorder_labels(data, {"contradiction", "neutral"}); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("f.tsv: row 3: got label 'entailment'"));
}

TEST(Dataset, UnlabelledDataAcceptsAnyLabelOrder) {
  Dataset data = parse("rte", Split::test, "index\tsentence1\tsentence2\n0\ta\tb\n");
  reorder_labels(data, {"yes", "no"});
  EXPECT_TRUE(std::isnan(data.examples[0].gold));
  EXPECT_THAT(data.labels, ElementsAre("yes", "no"));
}

}  // namespace
}  // namespace exeunt
