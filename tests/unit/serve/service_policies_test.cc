// SPDX-License-Identifier: Apache-2.0
// Which policies a service runs, and what it claims for them.
#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/test_service.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Service, AcceptsAllowedPolicies) {
  TestService server({}, certified());
  const auto layer = [&](const std::string& policy) {
    const HttpResponse response = server.post("/predict", R"({"inputs":"e","exit":{"policy":")" + policy + R"("}})");
    return response.status == 200 ? field_of(response, "x-exit-layer") : std::to_string(response.status);
  };
  EXPECT_EQ(layer("full"), "3");
  EXPECT_EQ(layer("entropy:0.2"), "1");
  EXPECT_EQ(layer("entropy:0.3"), "422");
  PolicySettings wider = certified();
  wider.allowed = "entropy:0..0.3";
  TestService open({}, wider);
  EXPECT_EQ(open.post("/predict", R"({"inputs":"e","exit":{"policy":"entropy:0.3"}})").status, 200);
  EXPECT_EQ(open.post("/predict", R"({"inputs":"e","exit":{"policy":"full"}})").status, 422);
  EXPECT_EQ(open.post("/predict", R"({"inputs":"e","exit":{"max_layers":1,"details":true}})").status, 200);
}

TEST(Service, ClaimsCertificateOnceWeightsAreHashed) {
  PolicySettings settings = certified();
  settings.hashed = false;
  const auto info = [](TestService& server) { return Json::parse(server.get("/info").body); };
  const auto loss = [](TestService& server) {
    const std::string page = server.get("/metrics").body;
    const size_t at = page.find("\nexeunt_certified_loss ");
    return page.substr(at + 1, page.find('\n', at + 1) - at - 1);
  };
  TestService server({}, settings);
  EXPECT_EQ(info(server)["certified"], false);
  EXPECT_FALSE(info(server).contains("certificate"));
  EXPECT_EQ(info(server)["model_sha"], nullptr);
  EXPECT_EQ(loss(server), "exeunt_certified_loss 0");
  EXPECT_EQ(server.get("/ready").status, 200);
  server.service().weights_hashed("abc", "");
  EXPECT_EQ(info(server)["certified"], true);
  EXPECT_EQ(info(server)["certificate"]["max_drop"], 0.01);
  EXPECT_EQ(info(server)["model_sha"], "abc");
  EXPECT_EQ(loss(server), "exeunt_certified_loss 0.01");
  EXPECT_THAT(server.log(), HasSubstr("weights hashed"));

  TestService other({}, settings);
  other.service().weights_hashed("", "model.safetensors: got SHA-256 1, want 2");
  EXPECT_EQ(info(other)["certified"], false);
  EXPECT_EQ(info(other)["model_sha"], nullptr);
  EXPECT_EQ(info(other)["policy"], "full");
  EXPECT_THAT(other.log(), HasSubstr("got SHA-256 1, want 2"));
}

// No certificate covers an answer that was taken before its policy would have given one.
TEST(Service, MarksForcedExitsAsNotCovered) {
  TestService server({}, certified());
  const HttpResponse whole = server.post("/predict", R"({"inputs":"abc","exit":{"details":true}})");
  EXPECT_EQ(field_of(whole, "x-promise"), "");
  EXPECT_THAT(whole.body, testing::Not(HasSubstr("covered")));
  const HttpResponse cut = server.post("/predict", R"({"inputs":"abc","exit":{"max_layers":1,"details":true}})");
  EXPECT_EQ(field_of(cut, "x-promise"), "none (1 of 1 answers were cut short)");
  EXPECT_THAT(cut.body, HasSubstr(R"("left_by":"max_layers","covered":false)"));
}

// Texts that certify are cut at their end.
TEST(Service, MarksTextsCutAtTheirStartAsNotCovered) {
  TestService server({}, certified());
  const auto promise = [&](const std::string& text, const std::string& fields, bool covered) {
    const HttpResponse got = server.post("/predict", R"({"inputs":")" + text + R"(","exit":{"details":true)" + fields);
    EXPECT_EQ(got.body.find(R"("covered":false)") == std::string::npos, covered) << fields;
    return field_of(got, "x-promise");
  };
  const std::string left = R"(},"truncation_direction":"Left"})";
  const std::string longer(100, 'e');
  EXPECT_EQ(promise(longer, left, false), "none (it is about texts cut at their end, not at their start)");
  EXPECT_EQ(promise("e", left, true), "");
  EXPECT_EQ(promise(longer, "}}", true), "");
  EXPECT_EQ(promise(longer, R"(,"policy":"full")" + left, true), "") << "full depth is what promises compare with";
}

TEST(Service, StepsAlongCertifiedPointsUnderLoad) {
  TestService server({.jobs = {.admission = {.requests = 4}}}, certified(0.02));
  server.engine().hold(true);
  for (int i = 0; i < 3; ++i) {
    server.service().handle({.method = "POST", .path = "/predict", .body = R"({"inputs":"a"})"}, [](HttpResponse&&) {});
  }
  auto now = Clock::now();
  for (int i = 0; i < 40; ++i) server.service().wake(now += 30ms);
  EXPECT_EQ(Json::parse(server.get("/info").body)["policy"],
            "entropy:0.2");  // 5 % would be the next, and is not allowed
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("exeunt_load_level 1\n"));
  server.engine().hold(false);
  EXPECT_TRUE(server.until([&] { return server.service().in_flight() == 0; }));
  for (int i = 0; i < 100; ++i) server.service().wake(now += 30ms);
  EXPECT_EQ(Json::parse(server.get("/info").body)["policy"], "entropy:0.1");
}

TEST(Service, TightensOnAlarm) {
  FakeReference reference;
  ShadowOptions shadow{.share = 1, .tighten_on_alarm = true, .reference = reference.reference()};
  TestService server({.shadow = shadow}, certified());
  const auto metrics_have = [&](const char* line) {
    return server.until([&] { return server.get("/metrics").body.find(line) != std::string::npos; });
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(server.post("/predict", R"({"inputs":"abc"})").status, 200);
  EXPECT_TRUE(metrics_have("exeunt_shadow_texts_total{policy=\"entropy:0.1\"} 5\n"));
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("exeunt_shadow_disagreements_total{policy=\"entropy:0.1\"} 0\n"));
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("exeunt_risk_covered{policy=\"entropy:0.1\"} 1\n"));
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("exeunt_shadow_processor_seconds_total 2.5\n"));
  Json watched = Json::parse(server.get("/info").body)["watched"];
  ASSERT_EQ(watched.size(), 1U);
  EXPECT_EQ(watched[0]["policy"], "entropy:0.1");
  EXPECT_EQ(watched[0]["certified"], 0.01);
  EXPECT_EQ(watched[0]["texts"], 5);
  EXPECT_EQ(watched[0]["covered"], true);
  EXPECT_LT(watched[0]["upper_bound"].get<double>(), 1);
  EXPECT_EQ(watched[0]["alarm"], false);
  // Texts with a 'd' are answered otherwise at full depth.
  for (int i = 0; i < 15; ++i) EXPECT_EQ(server.post("/predict", R"({"inputs":"dx"})").status, 200);
  EXPECT_TRUE(metrics_have("exeunt_promise_alarm{policy=\"entropy:0.1\"} 1\n"));
  EXPECT_THAT(server.log(), HasSubstr("no longer keeps its promise"));
  EXPECT_EQ(field_of(server.post("/predict", R"({"inputs":"e"})"), "x-exit-layer"), "3");
  EXPECT_EQ(Json::parse(server.get("/info").body)["certified"], false);
  EXPECT_EQ(Json::parse(server.get("/info").body)["watched"][0]["alarm"], true);
}

TEST(Service, ReportsAnotherShareAtTheFirstExit) {
  FakeReference reference;
  ShadowOptions shadow{.share = 1, .reference = reference.reference()};
  PolicySettings settings = certified();
  settings.entry->points.front().exit_rates = {0.2F, 0.3F, 0.5F};
  TestService server({.shadow = shadow}, settings);
  const auto metrics_have = [&](const std::string& line) {
    return server.until([&] { return server.get("/metrics").body.find(line) != std::string::npos; });
  };
  EXPECT_TRUE(metrics_have("exeunt_calibrated_exit_share{layer=\"1\"} 0.2\n"));
  const auto ask = [&](const std::string& text) {
    EXPECT_EQ(server.post("/predict", R"({"inputs":")" + text + R"("})").status, 200);
  };
  const std::string shift = "exeunt_first_exit_shift{policy=\"entropy:0.1\"} ";
  for (int i = 0; i < 100; ++i) ask("e");  // one text, which counts once here, as in a certificate of texts
  EXPECT_TRUE(metrics_have("exeunt_shadow_texts_total{policy=\"entropy:0.1\"} 100\n"));
  EXPECT_TRUE(metrics_have(shift + "0\n"));
  for (int i = 0; i < 60; ++i) ask("e " + std::to_string(i));  // all leave after layer 1
  EXPECT_TRUE(metrics_have(shift + "1\n"));
  EXPECT_THAT(server.log(), HasSubstr("more or less often than at calibration"));
}

}  // namespace
}  // namespace exeunt::serve
