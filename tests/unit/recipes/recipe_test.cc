// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/recipe.h"

#include <gtest/gtest.h>

#include "exeunt/base/files.h"
#include "exeunt/policy/policy.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/recipes/settings.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

Recipe shipped(const std::string& name) {
  return find_recipe(name);
}

Recipe patched(const std::string& name, const char* patch) {
  Json json = recipe_json(find_recipe(name));
  json.merge_patch(Json::parse(patch));
  return parse_recipe(json, name);
}

const OutputSpec kTwo{.problem = Problem::classification, .labels = {"no", "yes"}, .range = {}};

TEST(Recipe, PageOnFormatsListsEveryFieldOfStageAndRun) {
  const std::string page = read_text("docs/formats.md");
  for (const std::string& table : {field_table<StageSpec>(), field_table<TrainSettings>(kShapesWeights)})
    EXPECT_NE(page.find(table), std::string::npos) << "docs/formats.md, recipe.json wants:\n" << table;
}

TEST(Recipe, IsReadBackAsItWasWritten) {
  for (const std::string& name : recipe_names()) {
    const Recipe recipe = shipped(name);
    EXPECT_EQ(recipe.name, name);
    const OrderedJson json = recipe_json(recipe);
    EXPECT_EQ(recipe_json(parse_recipe(Json::parse(json.dump()), name)), json) << name;
  }
}

TEST(Recipe, HasTheSettingsThatThePapersTrainedWith) {
  const Recipe deebert = shipped("deebert");
  ASSERT_EQ(deebert.stages.size(), 2U);
  EXPECT_EQ(deebert.stages[1].train, Trainable::exits);
  EXPECT_EQ(number_for(deebert.stages[0].epochs, {.family = Family::bert, .rows = 100}), 3);
  EXPECT_EQ(number_for(deebert.stages[0].epochs, {.family = Family::roberta, .rows = 100}), 10);
  const Recipe elastic = shipped("elasticbert");
  EXPECT_EQ(elastic.seed, 6);
  EXPECT_EQ(elastic.gradient.rule, GradientRule::equilibrium);
  EXPECT_EQ(elastic.stages[0].weight_decay, .1);
  const Recipe ours = shipped("exeunt");
  EXPECT_EQ(number_for(ours.stages[0].epochs, {.rows = 9999}), 6);
  EXPECT_EQ(number_for(ours.stages[0].epochs, {.rows = 10000}), 3);
  EXPECT_EQ(number_for(ours.stages[0].lr, {.rows = 10000, .problem = Problem::regression}), 2e-5);
  EXPECT_EQ(ours.stages[0].head_lr, 5);
  EXPECT_EQ(ours.stages[0].objective.kind, ObjectiveKind::sum);
  // Exits imitate the last one in the end, frozen, whatever rates the command line has for the model.
  ASSERT_EQ(ours.stages.size(), 2U);
  EXPECT_EQ(ours.stages[1].objective.kind, ObjectiveKind::distill_early);
  EXPECT_EQ(ours.stages[1].objective.gamma, 1);
  EXPECT_EQ(ours.stages[1].train, Trainable::exits);
  EXPECT_FALSE(ours.stages[1].flags);
  EXPECT_EQ(number_for(ours.stages[1].epochs, {.rows = 10000}), 4);
  EXPECT_EQ(number_for(ours.stages[1].lr, {.rows = 10000}), 1e-3);
  EXPECT_EQ(number_for(ours.stages[1].lr, {.rows = 10000, .problem = Problem::regression}), 3e-3);
  EXPECT_EQ(ours.compat.frozen, Frozen::eval);
}

TEST(Recipe, GivesAPolicyThatItsOwnModelCanRun) {
  ModelSpec spec = small_spec();
  spec.layers = 12;
  for (const std::string& name : recipe_names()) {
    for (const bool regression : {false, true}) {
      OutputSpec outcome = kTwo;
      if (regression) outcome = {.problem = Problem::regression, .labels = {}, .range = std::pair{0.0, 5.0}};
      const ExitLayout layout = layout_of(shipped(name), spec, outcome);
      ExitSites sites{.layers = {}, .outputs = layout.outputs, .problem = outcome.problem, .lte = layout.lte};
      for (const ExitSite& site : layout.sites) sites.layers.push_back(site.after);
      EXPECT_NO_THROW((void)bind(parse_policy(native_policy(shipped(name), layout)), sites)) << name << regression;
    }
  }
  EXPECT_EQ(native_policy(shipped("exeunt"),
                          layout_of(shipped("exeunt"), spec,
                                    {.problem = Problem::regression, .labels = {}, .range = std::pair{0.0, 5.0}})),
            "patience:3,tol=0.1");
}

TEST(Recipe, LaysOutHeadsPerLayer) {
  const ModelSpec spec = small_spec();
  const ExitLayout plain = layout_of(shipped("plain"), spec, kTwo);
  ASSERT_EQ(plain.sites.size(), 1U);
  EXPECT_EQ(plain.sites[0].after, 3);
  const ExitLayout pabee = layout_of(shipped("pabee"), spec, kTwo);
  EXPECT_EQ(pabee.poolers(), 1);
  EXPECT_EQ(pabee.classifiers(), 3);
  const ExitLayout elbert = layout_of(shipped("elbert"), spec, kTwo);
  EXPECT_EQ(elbert.classifiers(), 1);
  EXPECT_EQ(layout_of(shipped("exeunt"), spec, kTwo).readers(), 3);
  EXPECT_TRUE(layout_of(shipped("berxit"), spec, kTwo).lte);
}

TEST(Recipe, GivesTheLastExitAPoolerOfItsOwnWhereItAloneHasNoReader) {
  const ExitLayout layout =
      layout_of(patched("exeunt", R"({"heads":{"reader":"own_but_last","pooler":"shared"}})"), small_spec(), kTwo);
  EXPECT_EQ(layout.sites[0].pooler, 0);
  EXPECT_EQ(layout.sites[1].pooler, 0);
  EXPECT_EQ(layout.sites[2].pooler, 1);
  EXPECT_FALSE(layout.sites[2].reader);
}

TEST(Recipe, GroupsHeadsByLayersWithoutGaps) {
  ModelSpec spec = small_spec();
  spec.layers = 4;
  const ExitLayout layout =
      layout_of(patched("elbert", R"({"heads":{"classifier":"groups:2"}, "exits":[3,4]})"), spec, kTwo);
  EXPECT_EQ(layout.classifiers(), 1);  // the lower group has no exit
  const Error error =
      error_of([&] { (void)layout_of(patched("elbert", R"({"heads":{"classifier":"groups:3"}})"), spec, kTwo); });
  EXPECT_STREQ(error.what(), "recipe 'elbert': 3 groups of classifiers, want a divisor of the 4 layers");
  EXPECT_EQ(patched("elbert", R"({"heads":{"classifier":"groups:512"}})").heads.classifier.groups, kMaxLayers);
  for (const char* patch : {R"({"heads":{"classifier":"groups:0"}})", R"({"heads":{"classifier":"groups:513"}})"}) {
    EXPECT_THAT(error_of([&] { (void)patched("elbert", patch); }).what(), testing::HasSubstr("field 'classifier'"));
  }
}

// Message and hint of a broken recipe, joined.
std::string complaint(const std::string& name, const char* patch) {
  const Error error = error_of([&] { (void)patched(name, patch); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return std::string(error.what()) + " | " + error.hint();
}

TEST(Recipe, SuggestsTheNearestWord) {
  EXPECT_THAT(complaint("exeunt", R"({"polici":"full"})"), testing::HasSubstr("policy"));
  EXPECT_THAT(complaint("exeunt", R"({"heads":{"raeder":"own"}})"), testing::HasSubstr("reader"));
  EXPECT_THAT(complaint("exeunt", R"({"heads":{"reader":"ownn"}})"), testing::HasSubstr("own"));
  EXPECT_THAT(complaint("exeunt", R"({"gradient":{"rule":"equilibrum"}})"), testing::HasSubstr("equilibrium"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"objective":{"kind":"summ"}}]})"), testing::HasSubstr("sum"));
  EXPECT_THAT(
      complaint("exeunt", R"({"stages":[{"objective":{"default":{"kind":"sum"},"few_pairs":{"kind":"line"}}}]})"),
      testing::HasSubstr("objective: few_pairs"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"objective":{"default":{"kind":"sum"},"small":{"kind":"sum"}}}]})"),
              testing::HasSubstr("small"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"objective":{"kind":"sum","gamma":1}}]})"),
              testing::HasSubstr("gamma"));
  EXPECT_THAT(complaint("exeunt", R"({"compat":{"adamw":"hg"}})"), testing::HasSubstr("hf"));
  EXPECT_THAT(complaint("exeunt", R"({"policy":"entorpy:1"})"), testing::HasSubstr("entropy"));
  const Error unknown = error_of([] { (void)find_recipe("elasticbret"); });
  EXPECT_EQ(unknown.code(), Code::usage);
  EXPECT_EQ(unknown.hint(), "did you mean 'elasticbert'?");
}

TEST(Recipe, RefusesPartsThatContradictEachOther) {
  EXPECT_THAT(complaint("exeunt", R"({"heads":{"pooler":"none"}})"), testing::HasSubstr("a reader needs a pooler"));
  EXPECT_THAT(complaint("plain", R"({"stages":[{"objective":{"kind":"early_sum"}}]})"),
              testing::HasSubstr("only the last"));
  EXPECT_THAT(complaint("deebert", R"({"stages":[{"objective":{"kind":"last"},"train":"exits"}]})"),
              testing::HasSubstr("does not reach them"));
  EXPECT_THAT(complaint("romebert", R"({"stages":[{"objective":{"kind":"last"}}]})"), testing::HasSubstr("projection"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"objective":{"kind":"sum"},"early_stop":3}]})"),
              testing::HasSubstr("eval_every"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"objective":{"kind":"sum"},"clip":-1}]})"),
              testing::HasSubstr("clip"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[]})"), testing::HasSubstr("at least one stage"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":[0]})"), testing::HasSubstr("layers from 1"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":"last:0"})"), testing::HasSubstr("last:K with K from 1"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":"last:2x"})"), testing::HasSubstr("last:K with K from 1"));
  EXPECT_THAT(complaint("exeunt", R"({"format":"exeunt.recipe/2"})"), testing::HasSubstr("exeunt.recipe/1"));
}

// Every form that a field has is written as it is read.
TEST(Recipe, WritesEveryFormOfAField) {
  for (const char* patch :
       {R"({"exits":"all"})", R"({"exits":"last"})", R"({"exits":"last:2"})", R"({"exits":"last:512"})",
        R"({"exits":[1,3]})", R"({"exits":[1,512]})", R"({"heads":{"classifier":"groups:1"}})",
        R"({"heads":{"classifier":"groups:3"}})", R"({"heads":{"classifier":"shared"}})",
        R"({"gradient":{"rule":"project","anchor":"early"}})",
        R"({"gradient":{"rule":"project","anchor":{"default":"early","QQP":"last"}}})"}) {
    const Json given = Json::parse(patch).flatten(), written = Json(recipe_json(patched("elbert", patch))).flatten();
    for (const auto& [field, value] : given.items()) EXPECT_EQ(written.value(field, Json()), value) << patch;
  }
  for (const char* number :
       {"3", R"({"default":3,"roberta":10})", R"({"default":3,"small":6})", R"({"default":3,"regression":2})",
        R"({"default":3,"albert":5,"regression":2,"small":6})"}) {
    const std::string stage = R"({"stages":[{"objective":{"kind":"sum"},"epochs":)" + std::string(number) + "}]}";
    EXPECT_EQ(Json(recipe_json(patched("plain", stage.c_str())))["stages"][0]["epochs"], Json::parse(number));
  }
}

TEST(Recipe, RefusesOtherForms) {
  EXPECT_THAT(complaint("exeunt", R"({"exits":[]})"), testing::HasSubstr("\"last:K\" or a list of layers"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":{"a":1}})"), testing::HasSubstr("\"last:K\" or a list of layers"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":[513]})"), testing::HasSubstr("layers from 1 to 512"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":[1.5]})"), testing::HasSubstr("layers from 1 to 512"));
  EXPECT_THAT(complaint("exeunt", R"({"exits":"last:513"})"), testing::HasSubstr("last:K with K from 1 to 512"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"epochs":3}]})"), testing::HasSubstr("objective"));
  EXPECT_THAT(complaint("exeunt", R"({"stages":[{"objective":{"kind":"sum"},"epochs":{"default":3,"robert":4}}]})"),
              testing::HasSubstr("robert"));
  EXPECT_THAT(complaint("exeunt", R"({"heads":{"reader":"groups:2"}})"), testing::HasSubstr("got \"groups:2\""));
}

// As in a model folder: what the run was, which training does not read.
TEST(Recipe, IsReadFromAFileWithItsRun) {
  const Scratch scratch;
  Json json = recipe_json(shipped("pabee"));
  json["run"] = {{"data", "x"}};
  json["provenance"] = {{"base", "y"}};
  for (const char* name : {"recipe.json", "recipe"}) {
    const std::string path = scratch.write(name, json.dump()).string();
    EXPECT_EQ(recipe_json(find_recipe(path)), recipe_json(shipped("pabee"))) << name;
  }
  EXPECT_THAT(error_of([] { (void)find_recipe("missing.json"); }).what(), testing::HasSubstr("No such file"));
  json["runs"] = 1;
  EXPECT_THAT(error_of([&] { (void)parse_recipe(json, "r"); }).what(), testing::HasSubstr("runs"));
}

TEST(Recipe, GivesTheLayoutItsHeads) {
  ModelSpec spec = small_spec(Family::roberta);
  const ExitLayout layout =
      layout_of(patched("elbert", R"({"heads":{"pool_input":"mean","inner":5,"pooler":"groups:3"}})"), spec, kTwo);
  EXPECT_EQ(layout.input, PoolInput::mean);
  EXPECT_EQ(layout.inner, 5);
  EXPECT_EQ(layout.width, spec.hidden);
  EXPECT_EQ(layout.outputs, 2);
  EXPECT_EQ(layout.pooler, row_of(spec.family).pooler);
  EXPECT_EQ(layout.poolers(), 3);
  EXPECT_EQ(layout.labels, kTwo.labels);
  EXPECT_EQ(layout_of(shipped("elbert"), spec, {.problem = Problem::regression}).outputs, 1);
  EXPECT_THAT(
      error_of([&] { (void)layout_of(patched("elbert", R"({"heads":{"pooler":"groups:2"}})"), spec, kTwo); }).what(),
      testing::HasSubstr("2 groups of poolers, want a divisor of the 3 layers"));
  EXPECT_THAT(error_of([&] { (void)layout_of(patched("elbert", R"({"exits":"last:4"})"), spec, kTwo); }).what(),
              testing::HasSubstr("exits after the last 4 layers, but the model has 3"));
  EXPECT_EQ(layout_of(patched("elbert", R"({"exits":"last:3"})"), spec, kTwo).sites.size(), 3U);
  EXPECT_EQ(native_policy(shipped("elbert"), layout_of(shipped("plain"), spec, kTwo)), "full") << "one exit";
}

TEST(Recipe, PresetHasTheReferencesValues) {
  for (const auto& [task, epochs] :
       {std::pair("RTE", 8.0), {"MRPC", 6.0}, {"CoLA", 5.0}, {"STS-B", 5.0}, {"SST-2", 2.0}}) {
    const RecipeChanges preset = reference_preset(task, Problem::classification);
    EXPECT_EQ(
        preset.stage,
        Json(
            {{"batch", 32}, {"lr", 5e-5}, {"warmup", 0.06}, {"weight_decay", 0.0}, {"clip", 1.0}, {"epochs", epochs}}));
    EXPECT_THAT(preset.set, testing::ElementsAre("compat.adamw=torch", "compat.dyn_grad=fresh"));
  }
  EXPECT_EQ(reference_preset("STS-B", Problem::regression).stage["lr"], 2e-5);
  EXPECT_FALSE(reference_preset("QQP", Problem::classification).stage.contains("epochs"));
}

TEST(Recipe, RefusesALayerTheModelDoesNotHave) {
  const Error error = error_of([] { (void)layout_of(patched("exeunt", R"({"exits":[2,9]})"), small_spec(), kTwo); });
  EXPECT_STREQ(error.what(), "recipe 'exeunt': an exit after layer 9, but the model has 3 layers");
}

}  // namespace
}  // namespace exeunt
