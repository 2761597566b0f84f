// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/service.h"

#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/test_service.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Service, AnswersEveryProtocol) {
  TestService server({}, certified());
  const HttpResponse predict = server.post("/predict", R"({"inputs":"ab"})");
  EXPECT_EQ(predict.status, 200);
  EXPECT_EQ(predict.body, R"([{"score":0.75,"label":"even"},{"score":0.25,"label":"odd"}])");
  EXPECT_EQ(field_of(predict, "x-exit-layer"), "2");
  EXPECT_EQ(field_of(predict, "x-layers-saved"), "1");
  EXPECT_EQ(field_of(predict, "x-exit-policy"), "entropy:0.1");
  EXPECT_EQ(field_of(predict, "x-compute-type"), "cpu");
  EXPECT_EQ(field_of(predict, "x-compute-characters"), "2");
  EXPECT_EQ(server.post("/", R"({"inputs":"ab"})").body, "[" + predict.body + "]");
  EXPECT_EQ(server.post("/invocations", R"({"inputs":"ab"})").body, predict.body);
  EXPECT_EQ(Json::parse(server.post("/predict", R"({"inputs":[["ab"],["a","b"]]})").body).size(), 2U);
  EXPECT_EQ(Json::parse(server.post("/classify", R"({"input":"abc"})").body)["data"][0]["label"], "odd");
  const Json infer =
      Json::parse(server
                      .post("/v2/models/fake/versions/1/infer",
                            R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["hey"]}]})")
                      .body);
  EXPECT_EQ(infer["outputs"][3]["data"][0], 1);
  EXPECT_EQ(server.post("/rerank", R"({"query":"a","texts":["b"]})").status, 424);
  for (const char* path : {"/v1/rerank", "/v2/rerank"}) {
    EXPECT_EQ(server.post(path, R"({"query":"a","documents":["b"]})").status, 424);
    EXPECT_EQ(server.get(path).status, 405);
  }
  EXPECT_EQ(server.get("/v2").status, 200);
  EXPECT_EQ(Json::parse(server.get("/v2/models/fake").body)["platform"], "exeunt");
  const Json models = Json::parse(server.get("/v1/models").body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"].size(), 1U);
  EXPECT_EQ(models["data"][0]["id"], "fake");
  EXPECT_EQ(models["data"][0]["object"], "model");
  EXPECT_EQ(models["data"][0]["permission"][0]["object"], "model_permission");
  EXPECT_GT(models["data"][0]["max_model_len"], 0);
  EXPECT_EQ(server.post("/v1/models", "{}").status, 405);
  EXPECT_EQ(Json::parse(server.get("/v2/models/fake/ready").body)["ready"], true);
  EXPECT_EQ(Json::parse(server.get("/openapi.json").content())["openapi"], "3.0.3");
  EXPECT_EQ(Json::parse(server.get("/info").body)["policy"], "entropy:0.1");
  EXPECT_EQ(Json::parse(server.get("/info").body)["certified"], true);
}

TEST(Service, RootIsPageForBrowsersAndHealthForOthers) {
  TestService server;
  EXPECT_EQ(Json::parse(server.get("/").body)["status"], "ok");
  const HttpResponse page = server.get("/", {{"accept", "text/html,*/*"}});
  EXPECT_THAT(std::string(page.content()), HasSubstr("<title>"));
  EXPECT_THAT(field_of(page, "content-security-policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(server.get("/favicon.ico").status, 204);
  EXPECT_EQ(server.get("/", {{"accept", "text/html"}, {"if-none-match", field_of(page, "etag")}}).status, 304);
  size_t bytes = 0;
  for (const char* path : {"/", "/playground.css", "/playground.js"}) {
    bytes += server.get(path, {{"accept", "text/html"}}).content().size();
  }
  EXPECT_LE(bytes, 100'000U);
  EXPECT_GT(bytes, 5'000U);
}

TEST(Service, EveryDocumentedRouteExistsAndRequiresKey) {
  TestService server;
  const Json document = Json::parse(server.get("/openapi.json").content());
  server.service().use_keys(ApiKeys({"a-good-key"}));
  for (const auto& [route, methods] : document["paths"].items()) {
    std::string path = route;
    if (const size_t at = path.find("{model}"); at != std::string::npos) path.replace(at, 7, "fake");
    for (const auto& [method, description] : methods.items()) {
      const auto status = [&](const HttpFields& fields) {
        return method == "get" ? server.get(path, fields).status : server.post(path, "{}", fields).status;
      };
      const bool open = description["security"].empty();
      EXPECT_EQ(status({}), open ? 200 : 401) << route;
      EXPECT_EQ(status({{"authorization", "Bearer a-bad-key"}}), open ? 200 : 401) << route;
      const int with_key = status({{"authorization", "Bearer a-good-key"}});
      EXPECT_TRUE(with_key == 200 || with_key == 422 || with_key == 424) << route << " " << with_key;
    }
  }
}

TEST(Service, RejectsWithOneErrorFormat) {
  TestService server;
  const auto check = [&](const HttpResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    const Json body = Json::parse(response.body);
    EXPECT_TRUE(body.contains("error") && body.contains("error_type"));
    EXPECT_FALSE(body["hint"].get<std::string>().empty()) << response.body;
    EXPECT_EQ(body["request_id"], field_of(response, "x-request-id"));
  };
  check(server.get("/nothing"), 404);
  EXPECT_THAT(server.post("/embed", R"({"inputs":"a"})").body, HasSubstr("classifiers are asked at /predict"));
  check(server.get("/predict"), 405);
  check(server.post("/health", ""), 405);
  check(server.post("/v2/models/fake", ""), 405);
  check(server.post("/v2/models/other/infer", "{}"), 404);
  check(server.post("/v2/models/fakes/infer", "{}"), 404);
  check(server.get("/v2/models/fake/versions/2"), 404);
  check(server.post("/predict", "{"), 400);
  check(server.post("/predict", R"({"inputs":"a"})", {{"content-type", "text/plain"}}), 415);
  check(server.post("/predict", R"({"inputs":"a","exit":{"policy":"entropi:1"}})"), 422);
  check(server.post("/predict", R"({"inputs":"a","exit":{"policy":"entropy:0.2"}})"), 422);
  check(server.post("/predict", R"({"inputs":"a"})", {{"x-request-timeout-ms", "soon"}}), 422);
  check(server.post("/predict", R"({"inputs":")" + std::string(63, 'a') + R"(","truncate":false})"), 422);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"a"})", {{"content-type", "application/json; charset=utf-8"}}).status,
            200);
}

TEST(Service, Returns503ForLostDeviceAndRecovers) {
  TestService server;
  const HttpResponse response = server.post("/predict", R"({"inputs":"lost"})");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(Json::parse(response.body)["error_type"], "Unhealthy");
  EXPECT_THAT(response.body, Not(HasSubstr("CUDA")));
  EXPECT_THAT(server.log(), HasSubstr("CUDA: waiting for a batch failed: the device is lost"));
  EXPECT_EQ(server.get("/health").status, 200) << "one failure may be a single request's";
  EXPECT_EQ(server.post("/predict", R"({"inputs":"fine"})").status, 200);
}

TEST(Service, EngineFaultFailsOnlyItsRequestAndIsLogged) {
  TestService server;
  const HttpResponse response = server.post("/predict", R"({"inputs":"fail"})");
  EXPECT_EQ(response.status, 424);
  EXPECT_EQ(Json::parse(response.body)["error_type"], "Backend");
  EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  EXPECT_THAT(server.log(), HasSubstr("/secret/path"));
  EXPECT_EQ(server.post("/predict", R"({"inputs":"fine"})").status, 200);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"nan"})").status, 424);
  EXPECT_THAT(server.log(), HasSubstr("not finite"));
  EXPECT_EQ(Json::parse(server.post("/predict", R"({"inputs":[["nan"],["fine"]]})").body)["error_type"], "Backend");
  EXPECT_EQ(server.service().metrics().failed_texts, 3U);
}

TEST(Service, TruncatesLongTextsAtRequestedEnd) {
  TestService server;
  // 62 bytes fit between the special tokens. Cut right: the 'e' at the end is lost, and with it the exit at layer 1.
  const std::string text = std::string(100, 'a') + "e";
  EXPECT_EQ(field_of(server.post("/predict", R"({"inputs":")" + text + R"("})"), "x-exit-layer"), "3");
  const auto tokens = [&](const std::string& body) {
    return field_of(server.post("/predict", body), "x-compute-tokens");
  };
  EXPECT_EQ(tokens(R"({"inputs":")" + text + R"("})"), "64");
  EXPECT_EQ(tokens(R"({"inputs":")" + text + R"(","truncation_direction":"Left"})"), "64");
  TestService early({}, certified());
  EXPECT_EQ(field_of(early.post("/predict", R"({"inputs":")" + text + R"("})"), "x-exit-layer"), "2");
  EXPECT_EQ(
      field_of(early.post("/predict", R"({"inputs":")" + text + R"(","truncation_direction":"Left"})"), "x-exit-layer"),
      "1");
}

TEST(Service, ReportsHowManyTokensWereTruncated) {
  TestService server;
  const std::string longer(100, 'a');  // 62 bytes fit between the special tokens
  EXPECT_EQ(field_of(server.post("/predict", R"({"inputs":"ab"})"), "x-truncated-tokens"), "");
  EXPECT_THAT(server.log(), Not(HasSubstr("truncated")));
  const HttpResponse batch =
      server.post("/predict", R"({"inputs":[["ab"],[")" + longer + R"("]],"exit":{"details":true}})");
  EXPECT_EQ(field_of(batch, "x-truncated-tokens"), "38");
  EXPECT_EQ(Json::parse(batch.body)[0][0]["exit"]["truncated_tokens"], 0);
  EXPECT_EQ(Json::parse(batch.body)[1][0]["exit"]["truncated_tokens"], 38);
  const HttpResponse left = server.post("/predict", R"({"inputs":")" + longer + R"(","truncation_direction":"Left"})");
  EXPECT_EQ(field_of(left, "x-truncated-tokens"), "38");
  // A text that is much longer is not counted to its end.
  const std::string endless(100'000, 'a');
  EXPECT_EQ(field_of(server.post("/predict", R"({"inputs":")" + endless + R"("})"), "x-truncated-tokens"), "65536");
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("exeunt_truncated_texts_total 3\n"));
  const size_t warned = server.log().find("a text was truncated");
  ASSERT_NE(warned, std::string::npos);
  EXPECT_EQ(server.log().find("a text was truncated", warned + 1), std::string::npos) << "once is enough";
}

TEST(Service, ReportsComputeTimeToBrowsers) {
  TestService server;
  EXPECT_THAT(field_of(server.post("/predict", R"({"inputs":"ab"})"), "server-timing"),
              testing::MatchesRegex("compute;dur=[0-9]+\\.[0-9][0-9][0-9]"));
}

TEST(Service, ShedsLoadOverLimitsAndCountsIt) {
  TestService server({.jobs = {.admission = {.requests = 2, .texts = 3, .bytes = 1000}}});
  server.engine().hold(true);
  std::vector<int> statuses;
  const auto send = [&](const std::string& body) {
    server.service().handle({.method = "POST", .path = "/predict", .body = body}, [&](HttpResponse&& response) {
      statuses.push_back(response.status);
      EXPECT_EQ(field_of(response, "retry-after"), response.status == 429 ? "1" : "");
    });
  };
  send(R"({"inputs":[["a"],["b"]]})");
  send(R"({"inputs":[["a"],["b"]]})");  // four texts do not fit
  EXPECT_EQ(statuses, (std::vector<int>{429}));
  send(R"({"inputs":"a"})");
  send(R"({"inputs":"a"})");  // a third request does not
  EXPECT_EQ(statuses, (std::vector<int>{429, 429}));
  server.engine().hold(false);
  EXPECT_TRUE(server.until([&] { return statuses.size() == 4; }));
  EXPECT_EQ(server.service().in_flight(), 0U);
  EXPECT_EQ(server.service().metrics().rejected["queue"], 1U);
  EXPECT_EQ(server.service().metrics().rejected["requests"], 1U);
  const HttpResponse page = server.get("/metrics");
  EXPECT_THAT(page.body, HasSubstr("exeunt_responses_total{status=\"429\"} 2\n"));
  EXPECT_THAT(page.type, HasSubstr("version=0.0.4"));
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

// The requests that the protocols' documents show, and the fields that they say come back.
TEST(Service, AnswersExamplesOfOpenApi) {
  TestService server;
  const HttpFields json = {{"content-type", "application/json"}};
  // text-embeddings-inference: quick tour, and PredictResponse of its openapi.json
  const Json predicted = Json::parse(server.post("/predict", R"({"inputs":"I like you."})", json).body);
  ASSERT_TRUE(predicted.is_array() && predicted.size() == 2);
  for (const Json& row : predicted) EXPECT_EQ(keys_of(row), (std::vector<std::string>{"label", "score"}));
  EXPECT_GE(predicted[0]["score"], predicted[1]["score"]);
  const Json unfit = Json::parse(server
                                     .post("/rerank", R"({"query":"What is Deep Learning?", "texts":
      ["Deep Learning is not...", "Deep learning is..."], "raw_scores": false})")
                                     .body);
  EXPECT_EQ(unfit["error_type"], "Backend");
  EXPECT_TRUE(unfit["error"].is_string());
  // Open Inference Protocol, inference_rest.md: the example with its tensors named as ours are
  const Json inferred = Json::parse(server
                                        .post("/v2/models/fake/infer", R"({"id" : "42", "inputs" : [
      {"name" : "input_ids", "shape" : [ 2, 2 ], "datatype" : "INT64", "data" : [ 1, 2, 3, 4 ]},
      {"name" : "attention_mask", "shape" : [ 2, 2 ], "datatype" : "INT64", "data" : [ 1, 1, 1, 1 ]}],
      "outputs" : [ {"name" : "scores"} ]})",
                                              json)
                                        .body);
  EXPECT_EQ(inferred["id"], "42");
  EXPECT_EQ(inferred["model_name"], "fake");
  ASSERT_EQ(inferred["outputs"].size(), 1U);
  EXPECT_EQ(keys_of(inferred["outputs"][0]), (std::vector<std::string>{"data", "datatype", "name", "shape"}));
  EXPECT_EQ(inferred["outputs"][0]["shape"], Json({2, 2}));
  EXPECT_EQ(inferred["outputs"][0]["data"].size(), 4U);
  EXPECT_EQ(Json::parse(server.get("/v2/health/live").body)["live"], true);
  EXPECT_EQ(Json::parse(server.get("/v2/health/ready").body)["live"], true);
  EXPECT_EQ(Json::parse(server.get("/v2/models/fake/ready").body), Json({{"name", "fake"}, {"ready", true}}));
  EXPECT_EQ(keys_of(Json::parse(server.get("/v2").body)), (std::vector<std::string>{"extensions", "name", "version"}));
  const Json model = Json::parse(server.get("/v2/models/fake").body);
  EXPECT_EQ(keys_of(model), (std::vector<std::string>{"inputs", "name", "outputs", "platform", "versions"}));
  EXPECT_EQ(keys_of(model["inputs"][0]), (std::vector<std::string>{"datatype", "name", "shape"}));
  EXPECT_TRUE(Json::parse(server.get("/v2/models/other").body)["error"].is_string());
}

TEST(Service, ParsesLargeBodiesOffNetworkThread) {
  TestService server;
  const std::string large = R"({"inputs":"ab","padding":")" + std::string(100'000, 'x') + "\"";
  std::vector<int> statuses;
  const auto send = [&](const std::string& body) {
    return server.service().handle({.method = "POST", .path = "/predict", .body = body},
                                   [&](HttpResponse&& response) { statuses.push_back(response.status); });
  };
  // Valid or not, it is answered only after another thread has parsed it and posted the result.
  for (const auto& [body, status] : {std::pair{large + "}", 200}, std::pair{large, 400}}) {
    EXPECT_NE(send(body), nullptr);
    EXPECT_TRUE(server.wait_for_post());
    EXPECT_TRUE(statuses.empty());
    EXPECT_EQ(server.service().in_flight(), 1U);
    EXPECT_TRUE(server.until([&] { return !statuses.empty(); }));
    EXPECT_EQ(statuses, std::vector{status});
    EXPECT_EQ(server.service().in_flight(), 0U);
    statuses.clear();
  }
  EXPECT_EQ(server.service().metrics().unknown_fields, 1U);
  const int begun = server.engine().begun();
  server.service().abandon(send(large + "}"));  // the client disconnects while its body is parsed
  EXPECT_TRUE(server.until([&] { return server.service().in_flight() == 0; }));
  EXPECT_EQ(server.engine().begun(), begun);
  EXPECT_TRUE(statuses.empty());
  EXPECT_EQ(send("[1"), nullptr);  // a small one is answered at once
  EXPECT_EQ(statuses, std::vector{400});
}

TEST(Service, RemovesDeadlineOfFinishedRequest) {
  TestService server({.jobs = {.request_timeout = 5s}});  // before the canary's time
  const auto idle = server.service().wake_at();
  EXPECT_EQ(server.post("/predict", R"({"inputs":"a"})").status, 200);
  EXPECT_EQ(server.post("/predict", "{}").status, 422);
  EXPECT_EQ(server.service().wake_at(), idle);
}

TEST(Service, Returns504AtDeadlineWhileEngineIsBusy) {
  TestService server;
  server.engine().hold(true);
  std::optional<HttpResponse> got;
  server.service().handle({.method = "POST", .path = "/predict", .body = R"({"inputs":"a","exit":{"deadline_ms":20}})"},
                          [&](HttpResponse&& response) { got = std::move(response); });
  const auto due = server.service().wake_at();
  EXPECT_LE(due, Clock::now() + 23ms);
  server.service().wake(due - 1us);
  EXPECT_FALSE(got.has_value());
  server.service().wake(due);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->status, 504);
  EXPECT_EQ(server.service().in_flight(), 1U);  // the engine still has it
  server.engine().hold(false);
  EXPECT_TRUE(server.until([&] { return server.service().in_flight() == 0; }));
  EXPECT_EQ(server.engine().begun(), 0);  // and never runs it
}

TEST(Service, CancelsWorkOfDisconnectedClients) {
  TestService server;
  server.engine().hold(true);
  bool answered = false;
  const auto running = server.service().handle({.method = "POST", .path = "/predict", .body = R"({"inputs":"a"})"},
                                               [&](HttpResponse&&) { answered = true; });
  ASSERT_NE(running, nullptr);
  server.service().abandon(running);
  server.engine().hold(false);
  EXPECT_TRUE(server.until([&] { return server.service().in_flight() == 0; }));
  EXPECT_FALSE(answered);
  EXPECT_EQ(server.engine().begun(), 0);
  EXPECT_EQ(server.service().metrics().abandoned, 1U);
}

TEST(Service, NotReadyWhileDraining) {
  TestService server;
  EXPECT_EQ(server.get("/ready").status, 200);
  server.service().drain();
  EXPECT_EQ(server.get("/ready").status, 503);
  EXPECT_EQ(server.get("/ping").status, 503);
  EXPECT_EQ(server.get("/v2/health/ready").status, 503);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/v2/health/live").status, 200);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"a"})").status, 200);  // new requests are still answered
}

TEST(Service, HealthFollowsCanary) {
  TestService server;
  server.engine().hold(true);
  auto now = Clock::now() + 31s;
  for (int i = 0; i < 40; ++i) {
    server.service().wake(now);
    now += 2s;
  }
  EXPECT_EQ(server.get("/health").status, 503);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"a"})").status, 503);
  server.engine().hold(false);
  EXPECT_TRUE(server.until([&] {
    server.service().wake(now += 2s);
    return server.service().healthy();
  }));
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Service, EchoesRequestIdAndTraceContext) {
  TestService server;
  const HttpResponse response = server.post(
      "/predict", R"({"inputs":"a"})",
      {{"x-request-id", "mine-1"}, {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  EXPECT_EQ(field_of(response, "x-request-id"), "mine-1");
  EXPECT_THAT(field_of(response, "traceparent"), testing::StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
  EXPECT_THAT(field_of(response, "traceparent"), Not(HasSubstr("b7ad6b7169203331")));
  EXPECT_THAT(server.log(), HasSubstr("request_id=mine-1 trace_id=0af7651916cd43dd8448eb211c80319c"));
  EXPECT_THAT(server.log(), HasSubstr("parent_id=b7ad6b7169203331"));
}

// Before a byte of the body is read.
TEST(Service, DecidesByHeadWhetherBodyIsRead) {
  TestService server({.jobs = {.admission = {.requests = 1, .bytes = 1000}}, .access = {.loopback = true}});
  server.service().use_keys(ApiKeys({"a-good-key"}));
  const std::pair<std::string, std::string> key{"authorization", "Bearer a-good-key"}, host{"host", "localhost"},
      json{"content-type", "application/json"};
  const auto status = [&](HttpFields fields, size_t declared = 10) {
    const auto refusal =
        server.service().refuse_body({.method = "POST", .path = "/predict", .fields = std::move(fields)}, declared);
    EXPECT_TRUE(!refusal || refusal->close);
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status({host, key, json}), 200);
  EXPECT_EQ(status({host, json}), 401);
  EXPECT_EQ(status({{"host", "evil.example"}, key, json}), 403);
  EXPECT_EQ(status({host, key, json, {"origin", "https://evil.example"}}), 403);
  EXPECT_EQ(status({host, key, {"content-type", "text/plain;a=b, application/json"}}), 415);
  server.engine().hold(true);
  std::optional<HttpResponse> got;
  server.service().handle({.method = "POST", .path = "/predict", .fields = {key}, .body = R"({"inputs":"a"})"},
                          [&](HttpResponse&& response) { got = std::move(response); });
  EXPECT_EQ(status({host, key, json}), 429);
  server.engine().hold(false);
  EXPECT_TRUE(server.until([&] { return got.has_value(); }));
  EXPECT_EQ(status({host, key, json}), 200);
  const std::string metrics = server.get("/metrics", {key}).body;
  for (const char* reason : {"host", "origin", "key", "requests"}) {
    EXPECT_THAT(metrics, HasSubstr(fmt::format(R"(reason="{}"}} 1)", reason)));
  }
}

// A response counts until it is sent, and is refused where others take all the memory and none of them can be closed.
TEST(Service, ChargesResponsesUntilTheyAreSent) {
  TestService server({.jobs = {.admission = {.bytes = 400'000}, .max_client_batch = 100}});
  std::string body = R"({"exit":{"details":true},"inputs":[["a"])";
  for (int i = 1; i < 100; ++i) body += R"(,["a"])";
  body += "]}";
  std::vector<HttpResponse> unsent;
  unsent.push_back(server.post("/predict", body));
  EXPECT_EQ(unsent[0].status, 200);
  const size_t held = server.service().bytes_held();
  EXPECT_GE(held, unsent[0].body.size());
  while (unsent.back().status == 200 && unsent.size() < 20) unsent.push_back(server.post("/predict", body));
  EXPECT_EQ(unsent.back().status, 429);
  EXPECT_FALSE(field_of(unsent.back(), "retry-after").empty());
  EXPECT_LE(server.service().bytes_held(), 400'000U);
  EXPECT_EQ(server.service().metrics().rejected["bytes"], 1U);
  EXPECT_EQ(server.service().metrics().responses[429], 1U);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.post("/predict", R"({"inputs":"a"})").status, 200);
  server.service().make_room_by([&] {
    if (unsent.empty()) return false;
    unsent.erase(unsent.begin());
    return true;
  });
  EXPECT_EQ(server.post("/predict", body).status, 200);
  unsent.clear();
  EXPECT_EQ(server.service().bytes_held(), 0U);
}

TEST(Service, RejectsBodyWithTooManyValues) {
  TestService server;
  std::string body = R"({"inputs":"a","z":[{})";
  for (int i = 1; i < 260'000; ++i) body += ",{}";
  const HttpResponse response = server.post("/predict", body + "]}");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("body: more than "));
}

TEST(Service, AcceptsFullBatchOfTokens) {
  TestService server;
  std::string row = "[1", rows;
  for (int i = 1; i < 64; ++i) row += ",1";
  for (int i = 0; i < 32; ++i) rows += (i == 0 ? "" : ",") + row + "]";
  std::string body = R"({"inputs":[)";
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
    body += fmt::format(R"({}{{"name":"{}","shape":[32,64],"datatype":"INT64","data":[{}]}})",
                        body.back() == '[' ? "" : ",", name, rows);
  }
  EXPECT_EQ(server.post("/v2/models/fake/infer", body + "]}").status, 200);
}

TEST(Service, RejectsRepeatedOutput) {
  TestService server;
  const auto ask = [&](const std::string& outputs) {
    return server
        .post("/v2/models/fake/infer",
              R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[)" + outputs + "]}")
        .status;
  };
  EXPECT_EQ(ask(R"({"name":"scores"},{"name":"label"})"), 200);
  EXPECT_EQ(ask(R"({"name":"scores"},{"name":"scores"})"), 422);
}

// A model may have many labels, and the network thread makes the page.
TEST(Service, InfoIsLinearInLabels) {
  struct Labelled {
    explicit Labelled(size_t labels) : service(with_labels(fake.context(), labels), {}, {}) {}
    ~Labelled() { fake.end_engine(); }
    static ServiceContext with_labels(ServiceContext context, size_t labels) {
      context.model.outputs = static_cast<int>(labels);
      context.model.labels.clear();
      for (size_t i = 0; i < labels; ++i) context.model.labels.push_back(fmt::format("label {}", i));
      return context;
    }
    FakeContext fake;
    Service service;
  };
  const auto make = [](size_t labels) { return std::make_unique<Labelled>(labels); };
  const auto info = [](const std::unique_ptr<Labelled>& server) {
    std::string body;
    server->service.handle({.method = "GET", .path = "/info"}, [&](HttpResponse&& response) { body = response.body; });
    return body;
  };
  EXPECT_LT(growth_exponent(1000, make, info), 1.5);
  EXPECT_EQ(Json::parse(info(make(30)))["model_type"]["classifier"]["label2id"]["label 29"], 29);
}

TEST(Service, LogsPeerUnlessDisabled) {
  TestService server, silent({.log_peers = false});
  for (TestService* each : {&server, &silent}) {
    (void)each->ask({.method = "GET", .path = "/health", .peer = "192.0.2.7:4711"});
  }
  EXPECT_THAT(server.log(), HasSubstr("peer=192.0.2.7:4711"));
  EXPECT_THAT(silent.log(), Not(HasSubstr("192.0.2.7")));
}

TEST(Service, AllowsOnlyListedOrigins) {
  TestService closed;
  EXPECT_EQ(closed.get("/health", {{"origin", "https://a.example"}}).status, 403);
  EXPECT_EQ(field_of(closed.get("/health", {{"origin", "https://a.example"}}), "access-control-allow-origin"), "");
  TestService open({.access = {.origins = {"https://a.example"}}});
  EXPECT_EQ(field_of(open.get("/health", {{"origin", "https://a.example"}}), "access-control-allow-origin"),
            "https://a.example");
  EXPECT_EQ(field_of(open.get("/health", {{"origin", "https://b.example"}}), "access-control-allow-origin"), "");
  EXPECT_EQ(open.ask({.method = "OPTIONS", .path = "/predict"}).status, 204);
}

}  // namespace
}  // namespace exeunt::serve
