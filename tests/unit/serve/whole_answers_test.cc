// SPDX-License-Identifier: Apache-2.0
// Whole pages and answers, so that no field goes missing or changes its value unnoticed.
#include <functional>

#include "exeunt/base/ascii.h"
#include "exeunt/base/number.h"
#include "exeunt/serve/service.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/test_service.h"

namespace exeunt::serve {
namespace {

TEST(Service, PagesAndAnswersHaveAllTheirFields) {
  TestService server({.precision = "int8", .engine = "cpu/made", .weights = "hash", .example = JobText{"a", "b"}},
                     certified());
  // Without times and the version.
  const auto body_of = [](const HttpResponse& response) {
    const std::function<void(Json&)> leave_out = [&](Json& value) {
      if (!value.is_structured()) return;
      if (value.is_object()) {
        value.erase("created");
        value.erase("version");
      }
      for (Json& one : value) leave_out(one);
    };
    Json body = Json::parse(response.body);
    leave_out(body);
    return body;
  };
  const HttpFields id = {{"x-request-id", "mine"}};
  const std::string details = R"(,"exit":{"details":true}})";
  EXPECT_EQ(body_of(server.get("/info")), Json::parse(R"({
   "allowed_policies": "full,entropy:0.1,entropy:0.2,entropy:0.4", "auto_truncate": true,
   "certificate": {"delta": 0.05, "loss": "disagreement", "max_drop": 0.01, "rows": 1000}, "certified": true,
   "engine": "cpu/made", "example": {"pair": "b", "text": "a"}, "exits": [1, 2, 3], "layers": 3,
   "max_client_batch_size": 32, "max_concurrent_requests": 512, "max_input_length": 64, "model_dtype": "int8",
   "model_id": "fake", "model_sha": "hash",
   "model_type": {"classifier": {"id2label": {"0": "even", "1": "odd"}, "label2id": {"even": 0, "odd": 1}}},
   "points": [
    {"cost_fraction": 0.6, "max_drop": 0.01, "policy": "entropy:0.1"},
    {"cost_fraction": 0.5, "max_drop": 0.02, "policy": "entropy:0.2"},
    {"cost_fraction": 0.3, "max_drop": 0.05, "policy": "entropy:0.4"}],
   "policy": "entropy:0.1",
   "promise": "at most 1 % of answers to distinct texts differ from the  model at full depth, confidence 95 %",
   "regression": false, "texts": 0, "watched": []})"));
  EXPECT_EQ(body_of(server.get("/v1/models")), Json::parse(R"({
   "data": [
    {
     "id": "fake", "max_model_len": 64, "object": "model", "owned_by": "exeunt", "parent": null,
     "permission": [
      {
       "allow_create_engine": false, "allow_fine_tuning": false, "allow_logprobs": false,
       "allow_sampling": false, "allow_search_indices": false, "allow_view": true, "group": null,
       "id": "modelperm-fake", "is_blocking": false, "object": "model_permission", "organization": "*"}],
     "root": "fake"}],
   "object": "list"})"));
  EXPECT_EQ(body_of(server.get("/v2/models/fake")), Json::parse(R"({
   "inputs": [
    {"datatype": "BYTES", "name": "text", "shape": [-1]},
    {"datatype": "BYTES", "name": "text_pair", "shape": [-1]},
    {"datatype": "INT64", "name": "input_ids", "shape": [-1, -1]},
    {"datatype": "INT64", "name": "attention_mask", "shape": [-1, -1]},
    {"datatype": "INT64", "name": "token_type_ids", "shape": [-1, -1]}],
   "name": "fake",
   "outputs": [
    {"datatype": "BYTES", "name": "label", "shape": [-1]},
    {"datatype": "FP32", "name": "scores", "shape": [-1, 2]},
    {"datatype": "FP32", "name": "logits", "shape": [-1, 2]},
    {"datatype": "INT32", "name": "exit_layer", "shape": [-1]},
    {"datatype": "BYTES", "name": "details", "shape": [-1]}],
   "platform": "exeunt", "versions": ["1"]})"));
  EXPECT_EQ(body_of(server.get("/health")), Json::parse(R"({"live": true, "ready": true, "status": "ok"})"));
  EXPECT_EQ(body_of(server.post("/predict", R"({"inputs":"abc")" + details, id)), Json::parse(R"([
   {
    "exit": {
     "exits": [
      {
       "confidence": 0.7310586, "entropy": 0.58220315, "label": "odd", "layer": 1, "logits": [0.0, 1.0],
       "margin": 0.46211717, "measure": 0.58220315, "probabilities": [0.26894143, 0.7310586], "streak": 0},
      {
       "confidence": 0.7310586, "entropy": 0.58220315, "label": "odd", "layer": 2, "logits": [0.0, 1.0],
       "margin": 0.46211717, "measure": 0.58220315, "probabilities": [0.26894143, 0.7310586], "streak": 1}],
     "layer": 2, "layers": 3, "layers_run": 2, "left_by": "policy", "policy": "entropy:0.1", "rule": "entropy",
     "tokens": 5, "truncated_tokens": 0},
    "label": "odd", "score": 0.75},
   {"label": "even", "score": 0.25}])"));
  EXPECT_EQ(body_of(server.post("/classify", R"({"input":["abc","de"])" + details, id)), Json::parse(R"({
   "data": [
    {
     "exit": {
      "exits": [
       {
        "confidence": 0.7310586, "entropy": 0.58220315, "label": "odd", "layer": 1, "logits": [0.0, 1.0],
        "margin": 0.46211717, "measure": 0.58220315, "probabilities": [0.26894143, 0.7310586], "streak": 0},
       {
        "confidence": 0.7310586, "entropy": 0.58220315, "label": "odd", "layer": 2, "logits": [0.0, 1.0],
        "margin": 0.46211717, "measure": 0.58220315, "probabilities": [0.26894143, 0.7310586], "streak": 1}],
      "layer": 2, "layers": 3, "layers_run": 2, "left_by": "policy", "policy": "entropy:0.1",
      "rule": "entropy", "tokens": 5, "truncated_tokens": 0},
     "index": 0, "label": "odd", "num_classes": 2, "probs": [0.25, 0.75]},
    {
     "exit": {
      "exits": [
       {
        "confidence": 0.7310586, "entropy": 0.58220315, "label": "even", "layer": 1, "logits": [1.0, 0.0],
        "margin": 0.46211717, "measure": 0.58220315, "probabilities": [0.7310586, 0.26894143], "streak": 0}],
      "layer": 1, "layers": 3, "layers_run": 1, "left_by": "policy", "policy": "entropy:0.1",
      "rule": "entropy", "tokens": 4, "truncated_tokens": 0},
     "index": 1, "label": "even", "num_classes": 2, "probs": [0.75, 0.25]}],
   "id": "classify-mine", "model": "fake", "object": "list",
   "usage": {"completion_tokens": 0, "prompt_tokens": 9, "total_tokens": 9}})"));
  EXPECT_EQ(
      body_of(server.post("/v2/models/fake/infer",
                          R"({"inputs":[{"name":"text","shape":[2],"datatype":"BYTES","data":["abc","de"]}]})", id)),
      Json::parse(R"({
   "id": "mine", "model_name": "fake", "model_version": "1",
   "outputs": [
    {"data": ["odd", "even"], "datatype": "BYTES", "name": "label", "shape": [2]},
    {"data": [0.25, 0.75, 0.75, 0.25], "datatype": "FP32", "name": "scores", "shape": [2, 2]},
    {"data": [0.0, 1.0, 1.0, 0.0], "datatype": "FP32", "name": "logits", "shape": [2, 2]},
    {"data": [2, 1], "datatype": "INT32", "name": "exit_layer", "shape": [2]}]})"));
}

// Names in order, and the values of all that do not measure time.
TEST(Service, AnswersHaveAllTheirHeaderFields) {
  TestService server({.access = {.origins = {"https://a.example"}}}, certified());
  const HttpResponse response =
      server.post("/predict", R"({"inputs":[["äbc"],["de","f"]],"exit":{"max_layers":1}})",
                  {{"content-type", "application/json"},
                   {"x-request-id", "mine"},
                   {"origin", "https://a.example"},
                   {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  ASSERT_EQ(response.status, 200) << response.body;
  std::vector<std::string> fields;
  for (const auto& [name, value] : response.fields) {
    const bool timed = name.ends_with("-time") || name == "server-timing" || name == "traceparent";
    if (name.ends_with("-time")) EXPECT_TRUE(number_of<int64_t>(value)) << name;
    fields.push_back(timed ? name : name + ": " + value);
  }
  EXPECT_THAT(fields,
              testing::ElementsAre("x-compute-type: cpu", "x-exit-policy: entropy:0.1", "x-compute-characters: 6",
                                   "x-compute-tokens: 12", "x-compute-time", "x-total-time", "x-tokenization-time",
                                   "x-queue-time", "x-inference-time", "server-timing", "x-exit-layer: 1,1",
                                   "x-layers-saved: 4", "x-promise: none (1 of 2 answers were cut short)",
                                   "x-request-id: mine", "traceparent", "x-content-type-options: nosniff",
                                   "access-control-allow-origin: https://a.example", "vary: Origin"));
  EXPECT_THAT(field_of(response, "traceparent"),
              testing::MatchesRegex("00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01"));
}

TEST(Service, InferTakesTokensAndGivesDetails) {
  TestService server({}, certified());
  EXPECT_EQ(server.get("/v2/models/fake/infer").status, 405);
  const Json answer = Json::parse(server
                                      .post("/v2/models/fake/infer", R"({"inputs":[
      {"name":"input_ids","shape":[1,5],"datatype":"INT64","data":[1,97,98,99,2]}],
      "outputs":[{"name":"details"},{"name":"label"}]})")
                                      .body);
  ASSERT_EQ(answer["outputs"].size(), 2U) << answer;
  EXPECT_EQ(answer["outputs"][1]["data"], Json({"odd"}));
  const Json details = Json::parse(answer["outputs"][0]["data"][0].get<std::string>());
  EXPECT_EQ(details["tokens"], 5);
  EXPECT_EQ(details["layer"], 2);
  EXPECT_EQ(details["exits"].size(), 2U);
}

TEST(Service, MetricsCountWhatWasAnswered) {
  TestService server({}, certified());
  EXPECT_EQ(server.post("/predict", R"({"inputs":[["abc"],["de"]]})").status, 200);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"abcd"})").status, 200);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"fail"})").status, 424);
  EXPECT_EQ(server.get("/nothing").status, 404);
  std::string figures;
  const std::string page = server.get("/metrics").body;
  for (const std::string_view line : split(page, '\n')) {
    const bool timed = line.find("_bucket{") != std::string_view::npos || line.find("_sum ") != std::string_view::npos;
    const bool measured =
        line.find("_seconds") != std::string_view::npos && line.find("_count ") == std::string_view::npos;
    if (!line.empty() && line[0] != '#' && !timed && !measured && line.find("resident") == std::string_view::npos)
      figures += std::string(line) + "\n";
  }
  EXPECT_EQ(figures, R"(exeunt_responses_total{status="200"} 2
exeunt_responses_total{status="404"} 1
exeunt_responses_total{status="424"} 1
exeunt_abandoned_total 0
exeunt_interruptions_total 0
exeunt_unknown_fields_total 0
exeunt_connections_total 0
exeunt_connections_open 0
exeunt_connections_refused_total 0
exeunt_request_duration_seconds_count 4
exeunt_tokenization_duration_seconds_count 3
exeunt_queue_wait_seconds_count 3
exeunt_inference_duration_seconds_count 3
exeunt_texts_total 3
exeunt_failed_texts_total 1
exeunt_tokens_total 15
exeunt_truncated_texts_total 0
exeunt_exits_total{layer="1"} 1
exeunt_exits_total{layer="2"} 2
exeunt_layers_run_total 5
exeunt_layers_full_total 9
exeunt_speedup_ratio 1.8
exeunt_queue_texts 0
exeunt_queue_bytes 0
exeunt_threshold_effective{policy="entropy:0.1"} 0.10000000149011612
exeunt_certified_loss 0.01
exeunt_load_level 0
exeunt_shadow_pending 0
exeunt_shadow_memory_bytes 0
exeunt_ready 1
)");
}

}  // namespace
}  // namespace exeunt::serve
