// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/recipe.h"
#include "lab/papers/elbert.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json config(const Json& changes) {
  Json out = read_json(EXEUNT_TEST_DATA "/golden/elbert/config.json");
  out.update(changes);
  return out;
}

Recipe trained_as(const Json& changes) {
  return changed(find_recipe("elbert"), {.set = elbert_training(config(changes), "config.json").set}, "elbert");
}

TEST(ElbertConfig, SteersTraining) {
  const Recipe recipe = trained_as({{"w_init", 2.0},
                                    {"w_lr", 0.5},
                                    {"num_exit_layers", 2},
                                    {"use_out_pooler", false},
                                    {"use_fc2", true},
                                    {"fc_size2", 32},
                                    {"pooler_input", "cls-mean"},
                                    {"thres_name", "bias_2"},
                                    {"exit_thres", 0.3},
                                    {"cnt_thres", 4.0}});
  EXPECT_EQ(recipe.stages[0].objective.kind, ObjectiveKind::learned);
  EXPECT_EQ(recipe.stages[0].objective.init, 2);
  EXPECT_EQ(recipe.stages[0].objective.lr, 0.5);
  EXPECT_EQ(recipe.heads.classifier.groups, 2);
  EXPECT_EQ(recipe.heads.pooler.groups, 2);
  EXPECT_EQ(recipe.heads.inner, 32);
  EXPECT_EQ(recipe.heads.input, PoolInput::cls_mean);
  EXPECT_EQ(recipe.policy, "window:0.3,4,bias_2");
  EXPECT_EQ(trained_as({{"thres_name", "logits"}, {"exit_thres", 0.2}}).policy, "minprob:0.2");
}

TEST(ElbertConfig, EqualWeightsAreASum) {
  EXPECT_EQ(trained_as({{"weight_name", "equal"}}).stages[0].objective.kind, ObjectiveKind::sum);
}

TEST(ElbertConfig, NamesWhatItDoesNotFollow) {
  const auto notices = elbert_training(config({{"kd_enable", true}, {"use_out_pooler", false}, {"fc_size1", 5}}), "c");
  EXPECT_THAT(notices.notices, Contains(HasSubstr("fc_size1 5 is not followed")));
  EXPECT_THAT(notices.notices, Contains(HasSubstr("kd_enable is not followed")));
  const auto losses = elbert_training(config({{"use_dml", true}, {"use_label_smooth", true}}), "c").notices;
  EXPECT_THAT(losses,
              testing::UnorderedElementsAre("c: use_dml is not followed", "c: use_label_smooth is not followed"));
  EXPECT_THAT(elbert_training(config(Json::object()), "c").notices, IsEmpty());
  EXPECT_THAT(elbert_training({{"model_type", "albert"}}, "c").set, IsEmpty());
  EXPECT_THAT(error_of([] {
                (void)elbert_training(config({{"weight_name", "linear"}}), "c");
              }).what(),
              HasSubstr("weight_name"));
}

}  // namespace
}  // namespace exeunt
