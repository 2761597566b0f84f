// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/exits_file.h"

#include <cmath>
#include <functional>

#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

Json written(const ExitLayout& exits) {
  return parse_json(json_text(exits_json(exits)), "exits.json");
}

Error exits_complaint(const std::function<void(Json&)>& spoil) {
  const ModelSpec spec = tiny::spec(Family::bert);
  Json value = written(tiny::own_heads(spec));
  spoil(value);
  return error_of([&] { (void)parse_exits(value, spec, "exits.json"); });
}

TEST(ExitsFile, RoundTrips) {
  const ModelSpec spec = tiny::spec(Family::bert);
  for (const ExitLayout& exits :
       {ExitLayout{}, tiny::own_heads(spec), tiny::shared_pooler(spec), tiny::shared_head(spec), tiny::raw_heads(spec),
        tiny::readers(spec), tiny::everything(spec), tiny::regression(spec)}) {
    const ExitLayout again = parse_exits(written(exits), spec, "exits.json");
    EXPECT_EQ(json_text(exits_json(again)), json_text(exits_json(exits)));
  }
}

TEST(ExitsFile, KeepsTheThresholdsOfSeveralLabels) {
  const ModelSpec spec = tiny::spec(Family::bert);
  Json value = written(tiny::own_heads(spec));
  value["problem"] = "multi_label";
  ExitLayout exits = parse_exits(value, spec, "exits.json");
  EXPECT_EQ(exits.problem, Problem::multi_label);
  EXPECT_TRUE(exits.logit_thresholds.empty()) << "0.5 each";
  EXPECT_FALSE(written(exits).contains("thresholds"));
  std::vector<double> thresholds(exits.labels.size(), 0.5);
  thresholds[0] = 0.123456;
  thresholds.back() = 0.999999;
  value["thresholds"] = thresholds;
  exits = parse_exits(value, spec, "exits.json");
  EXPECT_NEAR(exits.logit_thresholds[0], std::log(0.123456 / (1 - 0.123456)), 1e-6);
  EXPECT_EQ(written(exits)["thresholds"], Json(thresholds));
  for (const Json& bad : {Json{0.5}, Json(1), Json{0, 1, 2}, Json(std::vector(thresholds.size(), 1e-7)),
                          Json(std::vector(thresholds.size(), 0.9999999))}) {
    value["thresholds"] = bad;
    EXPECT_THROW((void)parse_exits(value, spec, "exits.json"), Error) << bad;
  }
  value["thresholds"] = thresholds;
  value["problem"] = "classification";
  EXPECT_THROW((void)parse_exits(value, spec, "exits.json"), Error);
}

TEST(ExitsFile, ReadsAFileWrittenByHand) {
  const Json value = parse_json(R"({
    "format": "exeunt.exits/1", "problem": "classification", "outputs": 2, "labels": ["no", "yes"], "range": null,
    "pool_input": "cls+max",
    "exits": [{"after": 2, "reader": null, "pooler": 0, "classifier": 0},
              {"after": 4, "reader": null, "pooler": 0, "classifier": 1}],
    "width": 8, "inner": null, "activation": "tanh", "lte": true,
    "last_ramp": {"pooler": 1, "classifier": 2}, "compat": {"last_ramp": "ramp"}})",
                                "exits.json");
  const ExitLayout exits = parse_exits(value, tiny::spec(Family::bert), "exits.json");
  EXPECT_EQ(exits.sites[0].after, 2);
  EXPECT_EQ(exits.sites[1].pooler, 0);
  EXPECT_EQ(exits.sites[1].reader, std::nullopt);
  EXPECT_EQ(exits.input, PoolInput::cls_max);
  EXPECT_TRUE(exits.lte);
  EXPECT_EQ(exits.last_ramp->classifier, 2);
  EXPECT_EQ(exits.compat_last_ramp, LastHead::ramp);
}

TEST(ExitsFile, UnknownFieldSuggestsNearest) {
  const Error error = exits_complaint([](Json& v) { v["otuputs"] = 3; });
  EXPECT_STREQ(error.what(), "exits.json: unknown field 'otuputs'");
  EXPECT_EQ(error.hint(), "did you mean 'outputs'?");
  EXPECT_THAT(exits_complaint([](Json& v) { v["exits"][1]["poler"] = 3; }).what(),
              HasSubstr("exits[1]: unknown field"));
  EXPECT_THAT(exits_complaint([](Json& v) { v["compat"]["x"] = 3; }).what(), HasSubstr("compat: unknown field 'x'"));
}

TEST(ExitsFile, RejectsWrongTypesAndBrokenRules) {
  const std::pair<std::function<void(Json&)>, const char*> spoils[] = {
      {[](Json& v) { v["format"] = "exeunt.exits/2"; }, "got format 'exeunt.exits/2', want 'exeunt.exits/1'"},
      {[](Json& v) { v.erase("format"); }, "field 'format' is missing"},
      {[](Json& v) { v["problem"] = "ranking"; }, "got 'ranking', want one of classification, regression"},
      {[](Json& v) { v["outputs"] = 2.5; }, "got 2.5, want a whole number"},
      {[](Json& v) { v["labels"] = "no"; }, "want a list of strings"},
      {[](Json& v) { v["labels"][0] = "yes"; }, "duplicate label 'yes'"},
      {[](Json& v) { v["range"] = {1}; }, "want [low, high] or null"},
      {[](Json& v) { v["pool_input"] = "min"; }, "got 'min', want one of cls, mean"},
      {[](Json& v) { v["exits"] = 3; }, "want a list of exits"},
      {[](Json& v) { v["exits"][2].erase("reader"); }, "exits[2]: field 'reader' is missing"},
      {[](Json& v) { v["exits"][2].erase("pooler"); }, "exits[2]: field 'pooler' is missing"},
      {[](Json& v) { v["exits"][2].erase("classifier"); }, "exits[2]: field 'classifier' is missing"},
      {[](Json& v) { v["exits"][2]["after"] = 0; }, "got an exit after layer 0 behind one after layer 2"},
      {[](Json& v) { v["exits"][2]["pooler"] = -1; }, "field 'pooler': got -1"},
      {[](Json& v) { v["exits"][2]["after"] = 2; }, "want rising layers"},
      {[](Json& v) { v["activation"] = "silu"; }, "got 'silu', want one of tanh, relu, gelu"},
      {[](Json& v) { v["pooler_bias"] = 1; }, "field 'pooler_bias': got 1, want true or false"},
      {[](Json& v) { v["lte"] = 1; }, "want true or false"},
      {[](Json& v) { v["last_ramp"] = 1; }, "last_ramp: got 1, want an object"},
      {[](Json& v) { v["compat"]["last_ramp"] = "last"; }, "got 'last', want one of final, ramp"},
      {[](Json& v) { v["compat"]["last_ramp"] = "ramp"; }, "the model has no last_ramp"}};
  for (const auto& [spoil, want] : spoils) {
    const Error error = exits_complaint(spoil);
    EXPECT_EQ(error.code(), Code::bad_file);
    EXPECT_THAT(error.what(), HasSubstr(want));
  }
}

TEST(ExitsFile, KeepsTheShapeOfPoolersAndLeavesOutWhatBertHas) {
  const ModelSpec spec = tiny::spec(Family::modernbert);
  const ExitLayout exits = tiny::own_heads(spec);
  const OrderedJson written = exits_json(exits);
  EXPECT_EQ(written.at("activation"), "gelu");
  EXPECT_EQ(parse_exits(parse_json(json_text(written), "x"), spec, "x").pooler, exits.pooler);
  EXPECT_FALSE(exits_json(tiny::own_heads(tiny::spec(Family::bert))).contains("pooler_bias"));
  EXPECT_FALSE(exits_json(tiny::own_heads(tiny::spec(Family::bert))).contains("pooler_norm"));
}

}  // namespace
}  // namespace exeunt
