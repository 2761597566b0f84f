// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/label_names.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Names = std::vector<std::string>;

ExitLayout model(Names labels) {
  ExitLayout layout;
  layout.labels = std::move(labels);
  return layout;
}

Dataset task_data(const char* task, bool labelled = true) {
  Dataset data;
  data.task = task;
  data.labels = find_task(task).labels;
  data.labelled = labelled;
  return data;
}

Dataset own_data(Names labels) {
  Dataset data;
  data.labels = std::move(labels);
  data.labelled = true;
  data.where = "my.csv";
  return data;
}

struct Said {
  std::string notices;
  [[nodiscard]] Observer observer() {
    return {.notice = [this](const std::string& text) { notices += text + "\n"; }};
  }
};

TEST(LabelNames, GenericNamesFollowTheTaskOrderWithNotice) {
  Said said;
  EXPECT_THAT(
      label_names(model({"LABEL_0", "LABEL_1", "LABEL_2"}), Family::bert, {}, task_data("MNLI"), said.observer()),
      ElementsAre("contradiction", "entailment", "neutral"));
  EXPECT_THAT(said.notices, HasSubstr("have no names: taken as contradiction, entailment, neutral, the order of MNLI"));
}

TEST(LabelNames, RobertaMnliFollowsPublishedClassifier) {
  Said said;
  EXPECT_THAT(
      label_names(model({"LABEL_0", "LABEL_1", "LABEL_2"}), Family::roberta, {}, task_data("MNLI-mm"), said.observer()),
      ElementsAre("contradiction", "neutral", "entailment"));
  EXPECT_THAT(said.notices, HasSubstr("contradiction, neutral, entailment, the order of MNLI-mm for roberta"));
}

TEST(LabelNames, OtherSpellingsFollowTheTask) {
  Said said;
  EXPECT_THAT(label_names(model({"neutral", "entailment", "contradiction"}), Family::bert, {}, task_data("MNLI"),
                          said.observer()),
              ElementsAre("neutral", "entailment", "contradiction"));
  EXPECT_EQ(said.notices, "");
  EXPECT_THAT(label_names(model({"CONTRADICTION", "NEUTRAL", "ENTAILMENT"}), Family::bert, {}, task_data("MNLI"),
                          said.observer()),
              ElementsAre("contradiction", "neutral", "entailment"));
  EXPECT_THAT(said.notices, HasSubstr("spelled as MNLI's"));
}

TEST(LabelNames, GivenNamesRenameAnyModel) {
  Said said;
  EXPECT_THAT(
      label_names(model({"NEGATIVE", "POSITIVE"}), Family::bert, {"0", "1"}, task_data("SST-2"), said.observer()),
      ElementsAre("0", "1"));
  EXPECT_THAT(said.notices, HasSubstr("labels NEGATIVE, POSITIVE are called 0, 1"));
  EXPECT_THAT(label_names(model({"LABEL_0", "LABEL_1", "LABEL_2"}), Family::bert,
                          {"entailment", "neutral", "contradiction"}, task_data("MNLI"), said.observer()),
              ElementsAre("entailment", "neutral", "contradiction"));
  // The same names in another order are the order of the data's labels: outputs go by name.
  EXPECT_THAT(label_names(model({"no", "yes"}), Family::bert, {"yes", "no"}, own_data({"yes", "no"}), said.observer()),
              ElementsAre("no", "yes"));
  EXPECT_THAT(error_of([&] {
                (void)label_names(model({"a", "b"}), Family::bert, {"x"}, task_data("SST-2"), {});
              }).what(),
              HasSubstr("--labels: got 1 names, want 2"));
  EXPECT_THAT(error_of([&] {
                (void)label_names(model({"a", "b"}), Family::bert, {"x", "x"}, task_data("SST-2"), {});
              }).what(),
              HasSubstr("duplicate label"));
}

TEST(LabelNames, GenericNamesFollowTheFileOrder) {
  const ExitLayout three = model({"LABEL_0", "LABEL_1", "LABEL_2"});
  EXPECT_THAT(label_names(three, Family::bert, {}, own_data({"a", "b", "c"}), {}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(label_names(three, Family::bert, {}, own_data({"0", "2"}), {}), ElementsAre("0", "1", "2"));
  EXPECT_THAT(label_names(three, Family::bert, {}, own_data({"LABEL_2"}), {}),
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_THAT(label_names(three, Family::bert, {}, own_data({}), {}), ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  const Error error = error_of([&] { (void)label_names(three, Family::bert, {}, own_data({"good", "bad"}), {}); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("the model's 3 labels have no names, and my.csv has the 2 labels good, bad"));
}

TEST(LabelNames, RejectsLabelsUnrelatedToTheTask) {
  const Error error = error_of([&] {
    (void)label_names(model({"NEGATIVE", "POSITIVE"}), Family::bert, {}, task_data("SST-2"), {});
  });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("the model's labels are NEGATIVE, POSITIVE, those of SST-2 are 0, 1"));
  EXPECT_THAT(error.hint(), HasSubstr("--labels 0,1 renames them"));
  EXPECT_THAT(error_of([&] {
                (void)label_names(model({"LABEL_0", "LABEL_1"}), Family::bert, {}, task_data("MNLI"), {});
              }).hint(),
              HasSubstr("choose the task"));
}

TEST(LabelNames, RegressionHasNoNames) {
  EXPECT_TRUE(label_names(model({}), Family::bert, {}, task_data("STS-B"), {}).empty());
}

}  // namespace
}  // namespace exeunt
