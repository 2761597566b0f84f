// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/jobs.h"

#include <latch>

#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/fake_engine.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

class TestJobs : public FakeContext {
 public:
  explicit TestJobs(JobOptions options = {})
      : FakeContext(2), jobs_({context_, policies_, canary_, shadow_, seal_}, options) {}
  ~TestJobs() { end_engine(); }
  TestJobs(const TestJobs&) = delete;
  TestJobs& operator=(const TestJobs&) = delete;

  // The status of a refusal that was thrown, or 0 and the request where it was admitted.
  int start(const std::string& body, HttpFields fields = {}, ParseJob parser = parse_predict) {
    HttpRequest request{.method = "POST", .path = "/predict", .fields = std::move(fields), .body = body};
    Incoming incoming{{.id = "r", .begun = begun_}, [this](HttpResponse&& r) { statuses_.push_back(r.status); }};
    try {
      jobs_.start(request, incoming, parser);
    } catch (const Refusal& refusal) {
      return refusal.status();
    }
    last_ = incoming.active;
    return 0;
  }
  void expect_empty() {
    EXPECT_TRUE(until([&] { return jobs_.admission().requests() == 0; }));
    EXPECT_EQ(jobs_.admission().texts(), 0U);
    EXPECT_EQ(jobs_.admission().bytes(), 0U);
    EXPECT_EQ(jobs_.wake_at(), Clock::time_point::max());
  }

  ServiceContext context_ = context();
  ServedPolicies policies_{certified(), bind_policy};
  Canary canary_{context_, Clock::now()};
  Shadow shadow_{context_, policies_, {}};
  int sealed_ = 0;
  std::function<void(HttpResponse&, const RequestInfo&)> seal_ = [this](HttpResponse&, const RequestInfo&) {
    ++sealed_;
  };
  Jobs jobs_;
  Clock::time_point begun_ = Clock::now();
  std::vector<int> statuses_;
  std::shared_ptr<ActiveRequest> last_;
};

const std::string kTwo = R"({"inputs":[["ab"],["c"]]})";
const std::string kLarge = R"({"inputs":"ab","padding":")" + std::string(10'000, 'x') + "\"}";

// However a request ends, its admission and deadline are released, and it is answered at most once.
TEST(Jobs, ReleasesAdmissionHoweverRequestEnds) {
  const std::string bad_policy = R"({"inputs":"a","exit":{"policy":"entropy:0.9"}})";
  const std::string bad_layer = R"({"inputs":"a","exit":{"max_layers":0}})";
  for (const auto& [body, status] :
       {std::pair{kTwo, 200}, std::pair{kLarge, 200}, std::pair{std::string("{"), 400}, std::pair{bad_policy, 422},
        std::pair{bad_layer, 422}, std::pair{kLarge.substr(0, 9000), 400},
        std::pair{std::string(R"({"inputs":"fail"})"), 424}}) {
    TestJobs test;
    EXPECT_EQ(test.start(body), 0);
    test.expect_empty();
    EXPECT_EQ(test.statuses_, std::vector{status}) << body.substr(0, 40);
    EXPECT_EQ(test.sealed_, 1);
  }
}

std::atomic<int> parsers_begun = 0;
std::optional<std::latch> parsers_may_end;
Job parse_when_told(const Json& body, const JobRules& rules) {
  ++parsers_begun;
  parsers_may_end->wait();
  return parse_predict(body, rules);
}

TEST(Jobs, ParsesLargeBodiesBesideEachOtherAndSmallOnes) {
  parsers_begun = 0;
  parsers_may_end.emplace(1);
  TestJobs test;
  for (int i = 0; i < kParserThreads; ++i) EXPECT_EQ(test.start(kLarge, {}, parse_when_told), 0);
  EXPECT_TRUE(test.until([&] { return parsers_begun == kParserThreads; }));
  EXPECT_EQ(test.start(kTwo), 0);
  EXPECT_TRUE(test.until([&] { return !test.statuses_.empty(); }));
  EXPECT_EQ(test.jobs_.admission().requests(), static_cast<size_t>(kParserThreads));
  parsers_may_end->count_down();
  test.expect_empty();
  EXPECT_EQ(test.statuses_, std::vector<int>(kParserThreads + 1, 200));
}

TEST(Jobs, RejectedRequestTakesNoAdmission) {
  TestJobs test({.admission = {.requests = 1}});
  EXPECT_EQ(test.start(kTwo, {{"content-type", "text/plain"}}), 415);
  EXPECT_EQ(test.start(kTwo, {{"x-request-timeout-ms", "0"}}), 422);
  test.context_.enough_memory = [] { return false; };
  EXPECT_EQ(test.start(kTwo), 503);
  test.context_.enough_memory = {};
  test.engine().hold(true);
  EXPECT_EQ(test.start(kTwo), 0);
  EXPECT_EQ(test.start(kTwo), 429);
  EXPECT_EQ(test.jobs_.admission().texts(), 2U);
  test.engine().hold(false);
  test.expect_empty();
  EXPECT_EQ(test.statuses_, std::vector{200});
  EXPECT_EQ(test.context_.metrics.rejected["memory"], 1U);
  EXPECT_EQ(test.context_.metrics.rejected["requests"], 1U);
}

TEST(Jobs, AppliesEarlierOfTwoDeadlines) {
  for (const auto& [header, field, want] :
       {std::tuple{"", "", 30'003ms}, std::tuple{"40", "", 43ms}, std::tuple{"40", "20", 23ms},
        std::tuple{"20", "40", 23ms}, std::tuple{"40000", "", 30'003ms}}) {
    TestJobs test;
    test.engine().hold(true);
    const std::string exit = *field == 0 ? "" : std::string(R"(,"exit":{"deadline_ms":)") + field + "}";
    HttpFields fields;
    if (*header != 0) fields.emplace_back("x-request-timeout-ms", header);
    EXPECT_EQ(test.start(R"({"inputs":"a")" + exit + "}", fields), 0);
    EXPECT_EQ(test.jobs_.wake_at(), test.begun_ + want) << header << " " << field;
    test.jobs_.wake(test.begun_ + want);
    EXPECT_EQ(test.statuses_, std::vector{504});
    test.engine().hold(false);
    test.expect_empty();
    EXPECT_EQ(test.statuses_, std::vector{504});  // the engine's late result is no second answer
  }
}

TEST(Jobs, NeverAnswersAbandonedRequest) {
  for (const std::string& body : {kTwo, kLarge}) {
    TestJobs test;
    test.engine().hold(true);
    EXPECT_EQ(test.start(body), 0);
    test.jobs_.abandon(test.last_);
    test.jobs_.abandon(test.last_);
    test.engine().hold(false);
    test.expect_empty();
    EXPECT_TRUE(test.statuses_.empty());
    EXPECT_EQ(test.engine().begun(), 0);
    EXPECT_EQ(test.context_.metrics.abandoned, 1U);
  }
}

// Such answers come from the host, whether or not the device is still there.
TEST(Jobs, AnswersBeforeFirstLayerDoNotClearFailuresOfCanary) {
  for (const int layers : {0, 1}) {
    TestJobs test;
    test.context_.runner.submit = [&](std::span<Engine::LazyText> texts, const Ask& ask) {
      if (ask.policy == nullptr) throw std::runtime_error("the device is lost");  // the canary
      Answer answer;
      answer.stop_reason = StopReason::policy;
      answer.exit = 0;
      answer.layer = answer.layers_run = layers;
      answer.logits = answer.probabilities = {0, 1};
      for (Engine::LazyText& text : texts) text.done(Answer(answer));
      return Ticket(std::make_shared<std::atomic<bool>>(false));
    };
    const Clock::time_point now = Clock::now();
    test.canary_.on_failure(now);
    EXPECT_EQ(test.start(kTwo), 0);
    test.expect_empty();
    EXPECT_EQ(test.statuses_, std::vector{200});
    test.canary_.wake(now);
    EXPECT_EQ(test.canary_.healthy(), layers > 0);
  }
}

TEST(Jobs, SubmitFailureFailsOnlyItsRequest) {
  TestJobs test;
  const auto submit = test.context_.runner.submit;
  int calls = 0;
  test.context_.runner.submit = [&](std::span<Engine::LazyText> texts, const Ask& ask) {
    if (++calls == 1) throw std::bad_alloc();
    if (calls == 2) throw std::runtime_error("closed");
    return submit(texts, ask);
  };
  for (const int status : {503, 424, 200}) {
    EXPECT_EQ(test.start(kTwo), 0);
    test.expect_empty();
    EXPECT_EQ(test.statuses_.back(), status);
  }
  EXPECT_EQ(calls, 3);  // texts of a request are submitted together
  EXPECT_THAT(test.log(), testing::HasSubstr("why=closed"));
}

}  // namespace
}  // namespace exeunt::serve
