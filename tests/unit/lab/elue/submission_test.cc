// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/submission.h"

#include <cmath>

#include "exeunt/base/files.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

TestAnswers answers(const char* task, float value) {
  const Task& found = find_task(task);
  TestAnswers out{&found, found.labels, {}};
  out.predicted.assign(static_cast<size_t>(found.find(Split::test)->rows), value);
  return out;
}

TEST(Submission, MapsLabelsByName) {
  TestAnswers given = answers("rte", 0);
  given.labels = {"not_entailment", "entailment"};
  given.predicted[1] = 1;
  const std::string table = glue_table(given);
  EXPECT_THAT(table, StartsWith("index\tprediction\n0\tnot_entailment\n1\tentailment\n2\tnot_entailment\n"));
  EXPECT_THAT(table, EndsWith("\n2999\tnot_entailment\n"));
}

TEST(Submission, SimilaritiesAreClampedWithThreeDecimals) {
  TestAnswers given = answers("sts-b", 2.5F);
  given.predicted[0] = -0.3F;
  given.predicted[1] = 7;
  given.predicted[2] = 3.14159F;
  EXPECT_THAT(glue_table(given), StartsWith("index\tprediction\n0\t0.000\n1\t5.000\n2\t3.142\n3\t2.500\n"));
}

TEST(Submission, RejectsOtherNumberOfRows) {
  TestAnswers given = answers("mnli-mm", 0);
  given.predicted.pop_back();
  const Error error = error_of([&] { (void)glue_table(given); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_STREQ(error.what(), "submission of MNLI-mm: got 9846 predictions, want 9847");
}

TEST(Submission, RejectsModelsOfAnotherTask) {
  TestAnswers given = answers("rte", 0);
  given.labels = {"entailment", "contradiction"};
  EXPECT_THAT(error_of([&] { (void)glue_table(given); }).what(),
              HasSubstr("label 'contradiction' is not one of the task's"));
  given.labels.clear();
  EXPECT_THAT(error_of([&] { (void)glue_table(given); }).what(), HasSubstr("got a regression model, want a classif"));
  TestAnswers similarity = answers("sts-b", 1);
  similarity.labels = {"0", "1"};
  EXPECT_THAT(error_of([&] { (void)glue_table(similarity); }).what(), HasSubstr("got a classification model"));
  similarity.labels.clear();
  similarity.predicted[5] = NAN;
  EXPECT_THAT(error_of([&] { (void)glue_table(similarity); }).what(), HasSubstr("prediction 5 is nan"));
}

TEST(Submission, ZipHasAllElevenFilesAndListsFilledOnes) {
  const std::vector<TestAnswers> given = {answers("wnli", 1), answers("ax", 2)};
  const GlueSubmission submission = glue_submission(given);
  EXPECT_THAT(submission.filled, SizeIs(9));
  for (const char* file : {"CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv",
                           "QNLI.tsv", "RTE.tsv", "WNLI.tsv", "AX.tsv"}) {
    EXPECT_THAT(submission.zip, HasSubstr(std::string(file) + "index\tprediction\n0\t")) << file;
  }
  EXPECT_THAT(submission.zip, HasSubstr("AX.tsvindex\tprediction\n0\tneutral\n"));
  EXPECT_THAT(submission.zip, HasSubstr("WNLI.tsvindex\tprediction\n0\t1\n"));
}

TEST(Submission, RejectsDuplicateAnswersAndThoseOfElue) {
  const std::vector<TestAnswers> twice = {answers("wnli", 1), answers("wnli", 0)};
  EXPECT_EQ(error_of([&] { (void)glue_submission(twice); }).code(), Code::usage);
  const std::vector<TestAnswers> elue = {answers("scitail", 1)};
  EXPECT_THAT(error_of([&] { (void)glue_submission(elue); }).what(), HasSubstr("not part of a GLUE submission"));
}

TEST(Submission, WritesNothingOnError) {
  const Scratch scratch;
  std::vector<TestAnswers> given = {answers("wnli", 1)};
  EXPECT_THAT(write_glue_submission(scratch.path() / "good.zip", given), SizeIs(10));
  EXPECT_EQ(read_text(scratch.path() / "good.zip"), glue_submission(given).zip);
  given[0].predicted.clear();
  (void)error_of([&] { (void)write_glue_submission(scratch.path() / "bad.zip", given); });
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "bad.zip"));
  EXPECT_EQ(error_of([&] { (void)write_glue_submission("/no/such/folder/x.zip", {}); }).code(), Code::resources);
}

ElueRun elue_run() {
  ElueRun run;
  run.answers = answers("scitail", 1);
  run.hidden = 768;
  run.exits = {{1, false}, {2, false}, {4, true}};
  run.tokens.assign(run.answers.predicted.size(), 10);
  run.layers.assign(run.answers.predicted.size(), 1);
  return run;
}

TEST(Submission, ModulesListWhatAnExampleRan) {
  ElueRun run = elue_run();
  EXPECT_EQ(elue_modules(run, 0), "(10),emb; (10,768),layer_1; (768),exit_1");
  run.layers[0] = 2;
  EXPECT_EQ(elue_modules(run, 0), "(10),emb; (10,768),layer_1; (768),exit_1; (10,768),layer_2; (768),exit_2");
}

TEST(Submission, ReaderExitReadsAllRowsAndExitsNotEvaluatedAreAbsent) {
  ElueRun run = elue_run();
  run.layers[0] = 4;
  run.tokens[0] = 7;
  EXPECT_EQ(elue_modules(run, 0),
            "(7),emb; (7,768),layer_1; (768),exit_1; (7,768),layer_2; (768),exit_2; (7,768),layer_3; "
            "(7,768),layer_4; (7,768),exit_4");
  run.layers[0] = 3;
  EXPECT_THROW((void)elue_modules(run, 0), std::logic_error);
}

TEST(Submission, ElueTablesHaveARowPerExample) {
  ElueRun run = elue_run();
  run.layers[1] = 2;
  run.tokens[1] = 23;
  EXPECT_THAT(elue_table(run),
              StartsWith("index\tpred\tmodules\n0\t1\t(10),emb; (10,768),layer_1; (768),exit_1\n1\t1\t(23)"));
  EXPECT_THAT(elue_exit_layers(run), StartsWith("index\texit_layer\n0\t1\n1\t2\n2\t1\n"));
  EXPECT_THAT(elue_lengths(run), StartsWith("10\t1\n23\t2\n10\t1\n"));
  run.answers.predicted.pop_back();
  EXPECT_THAT(error_of([&] { (void)elue_table(run); }).what(), HasSubstr("got 2125 predictions, want 2126"));
}

}  // namespace
}  // namespace exeunt
