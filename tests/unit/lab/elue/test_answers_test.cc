// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/test_answers.h"

#include <gtest/gtest.h>

#include "exeunt/data/user_data.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {
namespace {

TEST(TestAnswers, ListExecutedModulesOfEachText) {
  const Checkpoint model = Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert");
  const auto tokenizer = load_tokenizer(model.folder());
  UserColumns csv;
  csv.format = DataFormat::csv;
  const Dataset data =
      parse_user_data("text,label\nA great film,positive\nA dull plot,negative\nso so,negative\n", "my.csv", csv);
  const ExitTrace trace = make_trace(model, *tokenizer, data, {});
  const TestRun run = answer_test(model, trace, find_task("SST-2"), parse_policy("layer:2"));
  EXPECT_EQ(run.run.answers.task, &find_task("SST-2"));
  EXPECT_EQ(run.run.answers.labels, model.exits().labels);
  ASSERT_EQ(run.run.answers.predicted.size(), 3U);
  for (size_t row = 0; row < 3; ++row)
    EXPECT_EQ(run.run.answers.predicted[row], answer_of(trace.info, trace.at(row, 1)));
  EXPECT_EQ(run.run.hidden, model.spec().hidden);
  ASSERT_EQ(run.run.exits.size(), 1U) << "the one that the policy evaluates";
  EXPECT_EQ(run.run.exits[0].after, 2);
  EXPECT_FALSE(run.run.exits[0].reads_all_rows);
  EXPECT_EQ(run.parameters, count_parameters(model).total());
  EXPECT_EQ(run.run.layers, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(run.run.tokens, std::vector<int>(trace.lengths.begin(), trace.lengths.end()));
  EXPECT_DOUBLE_EQ(run.score.cost.average_layers, 2);
  EXPECT_GT(*run.score.mflops, 0);
}

}  // namespace
}  // namespace exeunt
