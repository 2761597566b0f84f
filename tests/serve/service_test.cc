// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/service.h"

#include "tests/scratch.h"
#include "tests/serve/fake_engine.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

// A service whose posts run when the test says so.
class House {
 public:
  explicit House(ServiceOptions options = {}, PolicySettings policies = {}, int threads = 1)
      : engine_(std::make_unique<FakeEngine>(threads)),
        service_({fake_model(), engine_->runner(), std::move(policies),
                  [this](std::function<void()> work) {
                    const std::lock_guard lock(mutex_);
                    posted_.push_back(std::move(work));
                  },
                  Log(false, [this](std::string_view line) { log_ += line; })},
                 std::move(options)) {}

  ~House() { engine_.reset(); }  // its last answers still go to the service
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  void run_posted() {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(posted_);
    }
    for (const auto& each : work) each();
  }

  // Runs what is posted until `done` says so; false after two seconds.
  template <class Done>
  bool until(Done&& done) {
    const auto limit = Clock::now() + 2s;
    while (!done()) {
      if (Clock::now() > limit) return false;
      run_posted();
      std::this_thread::sleep_for(200us);
    }
    return true;
  }

  HttpResponse ask(HttpRequest request) {
    std::optional<HttpResponse> got;
    service_.handle(std::move(request), [&](HttpResponse&& response) { got = std::move(response); });
    EXPECT_TRUE(until([&] { return got.has_value(); }));
    return got.value_or(HttpResponse{});
  }
  HttpResponse get(const std::string& path, HttpFields fields = {}) {
    return ask({.method = "GET", .path = path, .fields = std::move(fields)});
  }
  HttpResponse post(const std::string& path, const std::string& body, HttpFields fields = {}) {
    return ask({.method = "POST", .path = path, .fields = std::move(fields), .body = body});
  }

  Service& service() { return service_; }
  FakeEngine& engine() { return *engine_; }
  const std::string& log() const { return log_; }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  std::string log_;
  std::unique_ptr<FakeEngine> engine_;
  Service service_;
};

std::string field_of(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.fields) {
    if (key == name) return value;
  }
  return {};
}

PolicySettings certified(double max_drop = 0) {
  PolicyEntry entry;
  entry.exits = {1, 2, 3};
  entry.temperature = {1, 1, 1};
  entry.policy = parse_policy("entropy:0.1");
  entry.points = {{parse_policy("entropy:0.1"), 0.01, 0.6},
                  {parse_policy("entropy:0.2"), 0.02, 0.5},
                  {parse_policy("entropy:0.4"), 0.05, 0.3}};
  entry.certificate.emplace();
  entry.certificate->epsilon = 0.01;
  entry.certificate->delta = 0.05;
  entry.certificate->rows = 1000;
  return {.entry = entry, .chosen = {}, .allowed = {}, .max_drop_under_load = max_drop};
}

TEST(Service, AnswersEveryProtocol) {
  House house({}, certified());
  const HttpResponse predict = house.post("/predict", R"({"inputs":"ab"})");
  EXPECT_EQ(predict.status, 200);
  EXPECT_EQ(predict.body, R"([{"score":0.75,"label":"even"},{"score":0.25,"label":"odd"}])");
  EXPECT_EQ(field_of(predict, "x-exit-layer"), "2");
  EXPECT_EQ(field_of(predict, "x-layers-saved"), "1");
  EXPECT_EQ(field_of(predict, "x-exit-policy"), "entropy:0.1");
  EXPECT_EQ(field_of(predict, "x-compute-type"), "cpu");
  EXPECT_EQ(field_of(predict, "x-compute-characters"), "2");
  EXPECT_EQ(house.post("/", R"({"inputs":"ab"})").body, predict.body);
  EXPECT_EQ(house.post("/invocations", R"({"inputs":"ab"})").body, predict.body);
  EXPECT_EQ(Json::parse(house.post("/predict", R"({"inputs":[["ab"],["a","b"]]})").body).size(), 2U);
  EXPECT_EQ(Json::parse(house.post("/classify", R"({"input":"abc"})").body)["data"][0]["label"], "odd");
  const Json infer =
      Json::parse(house
                      .post("/v2/models/fake/versions/1/infer",
                            R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["hey"]}]})")
                      .body);
  EXPECT_EQ(infer["outputs"][3]["data"][0], 1);
  EXPECT_EQ(house.post("/rerank", R"({"query":"a","texts":["b"]})").status, 424);
  EXPECT_EQ(house.get("/v2").status, 200);
  EXPECT_EQ(Json::parse(house.get("/v2/models/fake").body)["platform"], "exeunt");
  EXPECT_EQ(Json::parse(house.get("/v2/models/fake/ready").body)["ready"], true);
  EXPECT_EQ(Json::parse(house.get("/openapi.json").body)["openapi"], "3.0.3");
  EXPECT_EQ(Json::parse(house.get("/info").body)["policy"], "entropy:0.1");
  EXPECT_EQ(Json::parse(house.get("/info").body)["certified"], true);
}

TEST(Service, ARootThatIsAPageForBrowsersAndHealthForOthers) {
  House house;
  EXPECT_EQ(Json::parse(house.get("/").body)["status"], "ok");
  const HttpResponse page = house.get("/", {{"accept", "text/html,*/*"}});
  EXPECT_THAT(page.body, HasSubstr("<title>"));
  EXPECT_THAT(field_of(page, "content-security-policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(house.get("/favicon.ico").status, 204);
  EXPECT_EQ(house.get("/", {{"accept", "text/html"}, {"if-none-match", field_of(page, "etag")}}).status, 304);
  size_t bytes = 0;
  for (const char* path : {"/", "/playground.css", "/playground.js"}) {
    bytes += house.get(path, {{"accept", "text/html"}}).body.size();
  }
  EXPECT_LE(bytes, 100'000U);
  EXPECT_GT(bytes, 5'000U);
}

TEST(Service, EveryDocumentedRouteExistsAndWantsTheKey) {
  House house;
  const Json document = Json::parse(house.get("/openapi.json").body);
  house.service().use_keys(ApiKeys({"a-good-key"}));
  for (const auto& [route, methods] : document["paths"].items()) {
    std::string path = route;
    if (const size_t at = path.find("{model}"); at != std::string::npos) path.replace(at, 7, "fake");
    for (const auto& [method, description] : methods.items()) {
      const auto status = [&](const HttpFields& fields) {
        return method == "get" ? house.get(path, fields).status : house.post(path, "{}", fields).status;
      };
      const bool open = description["security"].empty();
      EXPECT_EQ(status({}), open ? 200 : 401) << route;
      EXPECT_EQ(status({{"authorization", "Bearer a-bad-key"}}), open ? 200 : 401) << route;
      const int with_key = status({{"authorization", "Bearer a-good-key"}});
      EXPECT_TRUE(with_key == 200 || with_key == 422 || with_key == 424) << route << " " << with_key;
    }
  }
}

TEST(Service, RefusesWithOneFormOfBody) {
  House house;
  const auto check = [&](const HttpResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    const Json body = Json::parse(response.body);
    EXPECT_TRUE(body.contains("error") && body.contains("error_type"));
    EXPECT_FALSE(body["hint"].get<std::string>().empty()) << response.body;
    EXPECT_EQ(body["request_id"], field_of(response, "x-request-id"));
  };
  check(house.get("/nothing"), 404);
  check(house.get("/predict"), 405);
  check(house.post("/health", ""), 405);
  check(house.post("/v2/models/fake", ""), 405);
  check(house.post("/v2/models/other/infer", "{}"), 404);
  check(house.post("/v2/models/fakes/infer", "{}"), 404);
  check(house.get("/v2/models/fake/versions/2"), 404);
  check(house.post("/predict", "{"), 400);
  check(house.post("/predict", R"({"inputs":"a"})", {{"content-type", "text/plain"}}), 415);
  check(house.post("/predict", R"({"inputs":"a","exit":{"policy":"entropi:1"}})"), 422);
  check(house.post("/predict", R"({"inputs":"a","exit":{"policy":"entropy:0.2"}})"), 422);
  check(house.post("/predict", R"({"inputs":"a"})", {{"x-request-timeout-ms", "soon"}}), 422);
  check(house.post("/predict", R"({"inputs":")" + std::string(63, 'a') + R"(","truncate":false})"), 422);
  EXPECT_EQ(house.post("/predict", R"({"inputs":"a"})", {{"content-type", "application/json; charset=utf-8"}}).status,
            200);
}

TEST(Service, AFaultIsContainedAndItsReasonStaysInTheLog) {
  House house;
  const HttpResponse response = house.post("/predict", R"({"inputs":"fail"})");
  EXPECT_EQ(response.status, 424);
  EXPECT_EQ(Json::parse(response.body)["error_type"], "Backend");
  EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  EXPECT_THAT(house.log(), HasSubstr("/secret/path"));
  EXPECT_EQ(house.post("/predict", R"({"inputs":"fine"})").status, 200);
  EXPECT_EQ(house.post("/predict", R"({"inputs":"nan"})").status, 424);
  EXPECT_THAT(house.log(), HasSubstr("not finite"));
  EXPECT_EQ(Json::parse(house.post("/predict", R"({"inputs":[["nan"],["fine"]]})").body)["error_type"], "Backend");
  EXPECT_EQ(house.service().metrics().failed_texts, 3U);
}

TEST(Service, CutsLongTextsAtTheEndThatWasAskedFor) {
  House house;
  // 62 bytes fit between the special tokens. Cut right: the 'e' at the end is lost, and with it the exit at layer 1.
  const std::string text = std::string(100, 'a') + "e";
  EXPECT_EQ(field_of(house.post("/predict", R"({"inputs":")" + text + R"("})"), "x-exit-layer"), "3");
  const auto tokens = [&](const std::string& body) {
    return field_of(house.post("/predict", body), "x-compute-tokens");
  };
  EXPECT_EQ(tokens(R"({"inputs":")" + text + R"("})"), "64");
  EXPECT_EQ(tokens(R"({"inputs":")" + text + R"(","truncation_direction":"Left"})"), "64");
  House early({}, certified());
  EXPECT_EQ(field_of(early.post("/predict", R"({"inputs":")" + text + R"("})"), "x-exit-layer"), "2");
  EXPECT_EQ(
      field_of(early.post("/predict", R"({"inputs":")" + text + R"(","truncation_direction":"Left"})"), "x-exit-layer"),
      "1");
}

TEST(Service, ShedsWhatItCannotHoldAndCountsIt) {
  House house({.admission = {.requests = 2, .texts = 3, .bytes = 1000}});
  house.engine().hold(true);
  std::vector<int> statuses;
  const auto send = [&](const std::string& body) {
    house.service().handle({.method = "POST", .path = "/predict", .body = body}, [&](HttpResponse&& response) {
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
  house.engine().hold(false);
  EXPECT_TRUE(house.until([&] { return statuses.size() == 4; }));
  EXPECT_EQ(house.service().in_flight(), 0U);
  EXPECT_EQ(house.service().metrics().rejected["queue"], 1U);
  EXPECT_EQ(house.service().metrics().rejected["requests"], 1U);
  const HttpResponse page = house.get("/metrics");
  EXPECT_THAT(page.body, HasSubstr("exeunt_responses_total{status=\"429\"} 2\n"));
  EXPECT_THAT(page.type, HasSubstr("version=0.0.4"));
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

// The requests that the protocols' documents show, and the fields that they say come back.
TEST(Service, AnswersTheDocumentsOwnExamples) {
  House house;
  const HttpFields json = {{"content-type", "application/json"}};
  // text-embeddings-inference: quick tour, and PredictResponse of its openapi.json
  const Json predicted = Json::parse(house.post("/predict", R"({"inputs":"I like you."})", json).body);
  ASSERT_TRUE(predicted.is_array() && predicted.size() == 2);
  for (const Json& row : predicted) EXPECT_EQ(keys_of(row), (std::vector<std::string>{"label", "score"}));
  EXPECT_GE(predicted[0]["score"], predicted[1]["score"]);
  const Json unfit = Json::parse(house
                                     .post("/rerank", R"({"query":"What is Deep Learning?", "texts":
      ["Deep Learning is not...", "Deep learning is..."], "raw_scores": false})")
                                     .body);
  EXPECT_EQ(unfit["error_type"], "Backend");
  EXPECT_TRUE(unfit["error"].is_string());
  // Open Inference Protocol, inference_rest.md: the example with its tensors named as ours are
  const Json inferred = Json::parse(house
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
  EXPECT_EQ(Json::parse(house.get("/v2/health/live").body)["live"], true);
  EXPECT_EQ(Json::parse(house.get("/v2/health/ready").body)["live"], true);
  EXPECT_EQ(Json::parse(house.get("/v2/models/fake/ready").body), Json({{"name", "fake"}, {"ready", true}}));
  EXPECT_EQ(keys_of(Json::parse(house.get("/v2").body)), (std::vector<std::string>{"extensions", "name", "version"}));
  const Json model = Json::parse(house.get("/v2/models/fake").body);
  EXPECT_EQ(keys_of(model), (std::vector<std::string>{"inputs", "name", "outputs", "platform", "versions"}));
  EXPECT_EQ(keys_of(model["inputs"][0]), (std::vector<std::string>{"datatype", "name", "shape"}));
  EXPECT_TRUE(Json::parse(house.get("/v2/models/other").body)["error"].is_string());
}

TEST(Service, ReadsLargeBodiesElsewhere) {
  House house;
  const std::string large = R"({"inputs":"ab","padding":")" + std::string(100'000, 'x') + "\"";
  std::vector<int> statuses;
  const auto send = [&](const std::string& body) {
    return house.service().handle({.method = "POST", .path = "/predict", .body = body},
                                  [&](HttpResponse&& response) { statuses.push_back(response.status); });
  };
  // Good or bad, nothing is known of it until the other thread has read it and the network thread has been told.
  for (const auto& [body, status] : {std::pair{large + "}", 200}, std::pair{large, 400}}) {
    EXPECT_NE(send(body), nullptr);
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(statuses.empty());
    EXPECT_EQ(house.service().in_flight(), 1U);
    EXPECT_TRUE(house.until([&] { return !statuses.empty(); }));
    EXPECT_EQ(statuses, std::vector{status});
    EXPECT_EQ(house.service().in_flight(), 0U);
    statuses.clear();
  }
  EXPECT_EQ(house.service().metrics().unknown_fields, 1U);
  const int begun = house.engine().begun();
  house.service().abandon(send(large + "}"));  // the client leaves while its body is read
  EXPECT_TRUE(house.until([&] { return house.service().in_flight() == 0; }));
  EXPECT_EQ(house.engine().begun(), begun);
  EXPECT_TRUE(statuses.empty());
  EXPECT_EQ(send("[1"), nullptr);  // a small one is answered at once
  EXPECT_EQ(statuses, std::vector{400});
}

TEST(Service, ForgetsADeadlineWithItsRequest) {
  House house({.request_timeout = 5s});  // before the canary's time
  const auto idle = house.service().wake_at();
  EXPECT_EQ(house.post("/predict", R"({"inputs":"a"})").status, 200);
  EXPECT_EQ(house.post("/predict", "{}").status, 422);
  EXPECT_EQ(house.service().wake_at(), idle);
}

TEST(Service, KeepsDeadlinesEvenIfTheEngineIsBusy) {
  House house;
  house.engine().hold(true);
  std::optional<HttpResponse> got;
  house.service().handle({.method = "POST", .path = "/predict", .body = R"({"inputs":"a","exit":{"deadline_ms":20}})"},
                         [&](HttpResponse&& response) { got = std::move(response); });
  EXPECT_LE(house.service().wake_at(), Clock::now() + 25ms);
  house.service().wake(Clock::now());
  EXPECT_FALSE(got.has_value());
  house.service().wake(Clock::now() + 30ms);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->status, 504);
  EXPECT_EQ(house.service().in_flight(), 1U);  // the engine still has it
  house.engine().hold(false);
  EXPECT_TRUE(house.until([&] { return house.service().in_flight() == 0; }));
  EXPECT_EQ(house.engine().begun(), 0);  // and never runs it
}

TEST(Service, DropsTheWorkOfClientsThatLeave) {
  House house;
  house.engine().hold(true);
  bool answered = false;
  const auto running = house.service().handle({.method = "POST", .path = "/predict", .body = R"({"inputs":"a"})"},
                                              [&](HttpResponse&&) { answered = true; });
  ASSERT_NE(running, nullptr);
  house.service().abandon(running);
  house.engine().hold(false);
  EXPECT_TRUE(house.until([&] { return house.service().in_flight() == 0; }));
  EXPECT_FALSE(answered);
  EXPECT_EQ(house.engine().begun(), 0);
  EXPECT_EQ(house.service().metrics().abandoned, 1U);
}

TEST(Service, SaysItIsNotReadyWhileItDrains) {
  House house;
  EXPECT_EQ(house.get("/ready").status, 200);
  house.service().drain();
  EXPECT_EQ(house.get("/ready").status, 503);
  EXPECT_EQ(house.get("/ping").status, 503);
  EXPECT_EQ(house.get("/v2/health/ready").status, 503);
  EXPECT_EQ(house.get("/health").status, 200);
  EXPECT_EQ(house.get("/v2/health/live").status, 200);
  EXPECT_EQ(house.post("/predict", R"({"inputs":"a"})").status, 200);  // what still comes is answered
}

TEST(Service, TheCanaryTellsADeadEngineAndARecoveredOne) {
  House house;
  house.engine().hold(true);
  auto now = Clock::now() + 31s;
  for (int i = 0; i < 40; ++i) {
    house.service().wake(now);
    now += 2s;
  }
  EXPECT_EQ(house.get("/health").status, 503);
  EXPECT_EQ(house.post("/predict", R"({"inputs":"a"})").status, 503);
  house.engine().hold(false);
  EXPECT_TRUE(house.until([&] {
    house.service().wake(now += 2s);
    return house.service().healthy();
  }));
  EXPECT_EQ(house.get("/health").status, 200);
}

TEST(Service, ClientsMayAskForAllowedPolicies) {
  House house({}, certified());
  const auto layer = [&](const std::string& policy) {
    const HttpResponse response = house.post("/predict", R"({"inputs":"e","exit":{"policy":")" + policy + R"("}})");
    return response.status == 200 ? field_of(response, "x-exit-layer") : std::to_string(response.status);
  };
  EXPECT_EQ(layer("full"), "3");
  EXPECT_EQ(layer("entropy:0.2"), "1");
  EXPECT_EQ(layer("entropy:0.3"), "422");
  PolicySettings wider = certified();
  wider.allowed = "entropy:0..0.3";
  House open({}, wider);
  EXPECT_EQ(open.post("/predict", R"({"inputs":"e","exit":{"policy":"entropy:0.3"}})").status, 200);
  EXPECT_EQ(open.post("/predict", R"({"inputs":"e","exit":{"policy":"full"}})").status, 422);
  EXPECT_EQ(open.post("/predict", R"({"inputs":"e","exit":{"max_layers":1,"details":true}})").status, 200);
}

TEST(Service, UnderLoadItGoesAlongTheCertifiedPointsAndNoFurther) {
  House house({.admission = {.requests = 4}}, certified(0.02));
  house.engine().hold(true);
  for (int i = 0; i < 3; ++i) {
    house.service().handle({.method = "POST", .path = "/predict", .body = R"({"inputs":"a"})"}, [](HttpResponse&&) {});
  }
  auto now = Clock::now();
  for (int i = 0; i < 40; ++i) house.service().wake(now += 30ms);
  EXPECT_EQ(Json::parse(house.get("/info").body)["policy"],
            "entropy:0.2");  // 5 % would be the next, and is not allowed
  EXPECT_THAT(house.get("/metrics").body, HasSubstr("exeunt_load_level 1\n"));
  house.engine().hold(false);
  EXPECT_TRUE(house.until([&] { return house.service().in_flight() == 0; }));
  for (int i = 0; i < 100; ++i) house.service().wake(now += 30ms);
  EXPECT_EQ(Json::parse(house.get("/info").body)["policy"], "entropy:0.1");
}

TEST(Service, WatchesItsPromiseAndTightens) {
  House house({.shadow_share = 1, .tighten_on_alarm = true}, certified());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(house.post("/predict", R"({"inputs":"abc"})").status, 200);
  EXPECT_TRUE(house.until(
      [&] { return house.get("/metrics").body.find("exeunt_shadow_texts_total 5\n") != std::string::npos; }));
  EXPECT_THAT(house.get("/metrics").body, HasSubstr("exeunt_shadow_agreement 1\n"));
  // Texts with a 'd' are answered otherwise at full depth.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(house.post("/predict", R"({"inputs":"dx"})").status, 200);
  EXPECT_TRUE(
      house.until([&] { return house.get("/metrics").body.find("exeunt_promise_alarm 1\n") != std::string::npos; }));
  EXPECT_THAT(house.log(), HasSubstr("no longer keeps its promise"));
  EXPECT_EQ(field_of(house.post("/predict", R"({"inputs":"e"})"), "x-exit-layer"), "3");
  EXPECT_EQ(Json::parse(house.get("/info").body)["certified"], false);
}

TEST(Service, KeepsTheNamesOfARequestTogether) {
  House house;
  const HttpResponse response = house.post(
      "/predict", R"({"inputs":"a"})",
      {{"x-request-id", "mine-1"}, {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  EXPECT_EQ(field_of(response, "x-request-id"), "mine-1");
  EXPECT_THAT(field_of(response, "traceparent"), testing::StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
  EXPECT_THAT(field_of(response, "traceparent"), Not(HasSubstr("b7ad6b7169203331")));
  EXPECT_THAT(house.log(), HasSubstr("request_id=mine-1 trace_id=0af7651916cd43dd8448eb211c80319c"));
  EXPECT_THAT(house.log(), HasSubstr("parent_id=b7ad6b7169203331"));
}

TEST(Service, OtherOriginsAreServedOnlyWhereTheyAreNamed) {
  House closed;
  EXPECT_EQ(field_of(closed.get("/health", {{"origin", "https://a.example"}}), "access-control-allow-origin"), "");
  House open({.cors_origins = {"https://a.example"}});
  EXPECT_EQ(field_of(open.get("/health", {{"origin", "https://a.example"}}), "access-control-allow-origin"),
            "https://a.example");
  EXPECT_EQ(field_of(open.get("/health", {{"origin", "https://b.example"}}), "access-control-allow-origin"), "");
  EXPECT_EQ(open.ask({.method = "OPTIONS", .path = "/predict"}).status, 204);
}

}  // namespace
}  // namespace exeunt::serve
