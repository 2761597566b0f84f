// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/shadow.h"

#include <random>

#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/fake_engine.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

struct ShadowSetup {
  double share = 1;
  bool tighten = false, logs = false;
  uint64_t seed = 1;
  double max_drop = 0;
  double range = 0;  // of a regression; 0: labels
  bool multi_label = false;
  std::optional<RiskLoss> loss = {};
  std::filesystem::path watch_file = {};
  std::string created = {};  // of the certificate
  CertifiedUnit unit = CertifiedUnit::texts;
};

PolicySettings certified_at(const ShadowSetup& options) {
  PolicySettings settings = certified(options.max_drop);
  settings.entry->certificate->created = options.created;
  settings.entry->certificate->unit = options.unit;
  return settings;
}

class TestShadow : public FakeContext {
 public:
  explicit TestShadow(const ShadowSetup& options = {}) : policies_(certified_at(options), bind_policy) {
    if (options.range > 0) context_.model.problem = Problem::regression;
    if (options.multi_label) context_.model.problem = Problem::multi_label;
    ShadowOptions shadow{.share = options.share,
                         .tighten_on_alarm = options.tighten,
                         .seed = options.seed,
                         .watch_file = options.watch_file,
                         .reference = reference_.reference()};
    shadow.reference.logs = options.logs;
    shadow.reference.range = options.range;
    shadow.reference.loss = options.loss;
    shadow_.emplace(context_, policies_, std::move(shadow));
  }
  ~TestShadow() {
    reference_.hold(false);
    shadow_.reset();
    end_engine();
  }
  TestShadow(const TestShadow&) = delete;
  TestShadow& operator=(const TestShadow&) = delete;

  // As if the default policy had answered a request of these texts.
  void sample(const std::vector<std::string>& texts, StopReason reason = StopReason::policy) {
    Job job;
    for (const std::string& text : texts) job.texts.push_back({.text = text});
    sample(job, reason);
  }
  // The answers are `logits`, else by the texts.
  void sample(const Job& job, StopReason reason = StopReason::policy, const std::vector<float>& logits = {}) {
    ActiveRequest request;
    request.policy = policies_.current();
    request.job = job;
    for (const JobText& text : job.texts) {
      Answer& answer = request.outcomes.emplace_back().answer;
      answer.stop_reason = reason;
      answer.logits = text.text.size() % 2 == 1 ? std::vector<float>{0, 1} : std::vector<float>{1, 0};
      const size_t i = request.outcomes.size() - 1;
      const Encoding kept = encode_text(job, i, context_.model, ByteTokenizer());
      if (kept.truncated) request.outcomes[i].cut = count_cut_tokens(job, i, kept, ByteTokenizer());
      if (context_.model.problem == Problem::regression) answer.logits = {0.25F};
      if (!logits.empty()) answer.logits = logits;
      answer.evidence = compute_evidence(context_.model.exit_logits(answer.logits));
    }
    shadow_->sample(request);
  }
  void move_to_level_1() {
    Clock::time_point now = Clock::time_point{} + 1h;
    while (policies_.level() < 1) policies_.adapt(now += 25ms, 1.0);
  }
  Metrics::Shadows report() const { return shadow_->report(); }
  PromiseWatch point(size_t nth = 0) const { return report().points.at(nth).watch; }
  bool until_watched(uint64_t texts, size_t nth = 0) {
    return until([&] { return point(nth).texts() == texts && report().pending == 0; });
  }
  Shadow& shadow() { return *shadow_; }
  ServedPolicies& policies() { return policies_; }
  FakeReference& reference() { return reference_; }
  const ModelFacts& model() const { return context_.model; }

 private:
  ServiceContext context_ = context();
  ServedPolicies policies_;
  FakeReference reference_;
  std::optional<Shadow> shadow_;
};

TEST(Shadow, SamplesTextsAtRandom) {
  // Every fourth text is another one; counting to four would see either all of them or none.
  TestShadow test({.share = 0.25, .seed = 7});
  for (int i = 0; i < 500; ++i) test.sample({"dx", "ab", "ab", "ab"});
  ASSERT_TRUE(test.until([&] { return test.report().pending == 0; }));
  const PromiseWatch point = test.point();
  EXPECT_EQ(point.dropped(), 0U);
  EXPECT_NEAR(static_cast<double>(point.texts()), 500, 4 * std::sqrt(2000 * 0.25 * 0.75));
  EXPECT_NEAR(static_cast<double>(point.disagreements()), 125, 4 * std::sqrt(500 * 0.25 * 0.75));
  TestShadow same({.share = 0.25, .seed = 7}), other({.share = 0.25, .seed = 8});
  for (TestShadow* each : {&same, &other}) {
    for (int i = 0; i < 500; ++i) each->sample({"dx", "ab", "ab", "ab"});
    ASSERT_TRUE(each->until([&] { return each->report().pending == 0; }));
  }
  EXPECT_EQ(same.point().disagreements(), point.disagreements());
  EXPECT_NE(std::pair(other.point().texts(), other.point().disagreements()),
            std::pair(point.texts(), point.disagreements()));
}

TEST(Shadow, SkipsTextsNotDecidedByPolicy) {
  TestShadow test;
  for (const StopReason reason :
       {StopReason::deadline, StopReason::max_layers, StopReason::cancelled, StopReason::failed})
    test.sample({"a"}, reason);
  test.sample({"a"}, StopReason::last_exit);
  ASSERT_TRUE(test.until_watched(1));
  EXPECT_EQ(test.reference().runs(), 1);
}

TEST(Shadow, SkipsTextsThatNoPromiseCovers) {
  TestShadow test;
  test.sample(
      Job{.shape = Shape::zero_shot, .texts = {{.text = "a", .pair = "b"}}, .zero_shot = ZeroShot{.labels = {"b"}}});
  for (const size_t size : {100, 10})
    test.sample(Job{.texts = {{.text = std::string(size, 'a')}}, .truncate_left = true});
  test.sample({std::string(100, 'a')});
  ASSERT_TRUE(test.until_watched(2)) << "the short one, and the one cut at its end";
  EXPECT_EQ(test.reference().runs(), 2);
}

TEST(Shadow, CountsDroppedTextsAsNotCovered) {
  TestShadow test;
  test.reference().hold(true);
  test.sample(std::vector<std::string>(Shadow::kMaxPending, "ab"));
  EXPECT_TRUE(test.point().upper_bound().has_value());
  test.sample({"ab", "ab", "ab"});
  EXPECT_EQ(test.point().dropped(), 3U);
  EXPECT_EQ(test.report().pending, Shadow::kMaxPending);
  EXPECT_FALSE(test.point().upper_bound().has_value());
  test.reference().hold(false);
  ASSERT_TRUE(test.until_watched(Shadow::kMaxPending));
  ASSERT_TRUE(test.point().upper_bound().has_value());
  EXPECT_GT(*test.point().upper_bound(), 3.0 / (Shadow::kMaxPending + 3));  // what was dropped counts as lost
  test.sample({"ab"});
  ASSERT_TRUE(test.until_watched(Shadow::kMaxPending + 1));
  EXPECT_EQ(test.reference().dropped(), 3U);  // the log learns of them with the next text
  test.shadow().stop();
  test.sample({"ab"});
  EXPECT_EQ(test.report().pending, 0U);
}

TEST(Shadow, LimitsBytesOfPendingTexts) {
  TestShadow test;
  test.reference().hold(true);
  for (int i = 0; i < 20; ++i) test.sample({std::string((1 << 20) - 8, 'a')});  // and an answer of two floats
  EXPECT_EQ(test.point().dropped(), 4U);
  EXPECT_EQ(test.report().pending, Shadow::kMaxPendingBytes >> 20);
}

TEST(Shadow, LimitsBytesOfPendingQueries) {
  TestShadow test;
  test.reference().hold(true);
  for (int i = 0; i < 20; ++i) test.sample(Job{.texts = {{.text = "a"}}, .query = std::string(1 << 20, 'a')});
  EXPECT_EQ(test.report().pending, (Shadow::kMaxPendingBytes >> 20) - 1);
}

TEST(Shadow, AlarmIsLoggedOnceAndTightensIfConfigured) {
  for (const bool tighten : {false, true}) {
    TestShadow test({.tighten = tighten, .unit = tighten ? CertifiedUnit::requests : CertifiedUnit::texts});
    test.sample(std::vector<std::string>(12, "dx"));
    ASSERT_TRUE(test.until_watched(12));
    EXPECT_TRUE(test.point().alarm());  // all of twelve, where 1 % was promised
    EXPECT_EQ(str(test.policies().current()->spec), tighten ? "full" : "entropy:0.1");
    EXPECT_THAT(test.log(), testing::HasSubstr(tighten ? "action=\"served no more\"" : "action=none"));
    EXPECT_THAT(test.log(), testing::HasSubstr("policy=entropy:0.1 certified=0.01 of="));
    EXPECT_THAT(test.log(), testing::HasSubstr(tighten ? "of=requests mean_loss=1.0000" : "of=\"distinct texts"));
    const std::string said = test.log();
    test.sample({"dx"});
    if (tighten) {
      EXPECT_EQ(test.report().pending, 0U);  // full depth needs no shadow
    } else {
      ASSERT_TRUE(test.until_watched(13));
    }
    EXPECT_EQ(test.log(), said);
  }
}

TEST(Shadow, ContinuesFromStateOfEarlierServers) {
  const Scratch scratch;
  const std::filesystem::path file = scratch.path() / "log.watch";
  RiskAlarm all(0.01, PromiseWatch::kFalseAlarm);
  for (int server = 0; server < 3; ++server) {
    TestShadow test({.tighten = true, .watch_file = file});
    EXPECT_FALSE(test.point().alarm());
    test.sample({"dx", "ab"});
    ASSERT_TRUE(test.until_watched(2));
    test.shadow().end();
    for (const double loss : {1, 0}) all.record(loss);
    EXPECT_EQ(read_watch_file(file).at(0).losses, all.memory().losses);
    EXPECT_THAT(read_watch_file(file).at(0).wealth, testing::ElementsAreArray(all.memory().wealth));
  }
  {
    TestShadow test({.tighten = true, .watch_file = file});
    test.sample(std::vector<std::string>(12, "dx"));
    ASSERT_TRUE(test.until_watched(12));
    EXPECT_TRUE(test.point().alarm());
    test.shadow().end();
  }
  TestShadow after({.tighten = true, .watch_file = file});
  EXPECT_TRUE(after.point().alarm()) << "before any text";
  EXPECT_EQ(str(after.policies().current()->spec), "full");
  EXPECT_THAT(after.log(), testing::HasSubstr("found by an earlier server"));
  TestShadow renewed({.tighten = true, .watch_file = file, .created = "2026-03-01T12:34:56Z"});
  EXPECT_FALSE(renewed.point().alarm()) << "another certificate";
}

TEST(Shadow, RestartsIfStateFileIsDamaged) {
  const Scratch scratch;
  EXPECT_THAT(read_watch_file(scratch.path() / "none"), testing::IsEmpty());
  for (
      const char* damaged :
      {"", "{", R"({"format":"exeunt.watch/2","points":[]})",
       R"({"format":"exeunt.watch/1","points":[{"policy":"full","max_drop":0.01,"created":"","losses":1,"wealth":[1],"alarm":false}]})",
       R"({"format":"exeunt.watch/1","points":[{"policy":"full","max_drop":0.01,"created":"","losses":1,"wealth":[-1,0,0,0,0],"alarm":false}]})"}) {
    const auto file = scratch.write("log.watch", damaged);
    EXPECT_EQ(error_of([&] { (void)read_watch_file(file); }).code(), Code::bad_file) << damaged;
    TestShadow test({.watch_file = file});
    EXPECT_THAT(test.log(), testing::HasSubstr("its watch begins anew")) << damaged;
    test.sample({"ab"});
    ASSERT_TRUE(test.until_watched(1));
    test.shadow().end();
    EXPECT_EQ(read_watch_file(file).at(0).losses, 1);
  }
}

TEST(Shadow, LogIncludesTextsAtFullDepth) {
  TestShadow test({.tighten = true, .logs = true});
  test.sample(std::vector<std::string>(12, "dx"));
  ASSERT_TRUE(test.until_watched(12));
  test.sample({"dx"});
  ASSERT_TRUE(test.until([&] { return test.report().pending == 0; }));
  EXPECT_EQ(test.reference().runs(), 13);
  EXPECT_EQ(test.point().texts(), 12U);
}

// 1.5 % of answers differ: too many for the default's 1 %, and kept by the 2 % of the point under load.
TEST(Shadow, WatchesEachPointByItsOwnEpsilon) {
  const auto answer = [](TestShadow& test, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 40; ++i) {
      for (int j = 0; j < 500; ++j) test.sample({random() % 1000 < 15 ? "dx" : "ab"});
      if (!test.until([&] { return test.report().pending == 0; })) return false;
    }
    return true;
  };
  TestShadow idle({.tighten = true, .max_drop = 0.02}), loaded({.tighten = true, .max_drop = 0.02});
  ASSERT_TRUE(answer(idle, 1));
  EXPECT_TRUE(idle.point(0).alarm());
  EXPECT_EQ(idle.point(1).texts(), 0U);
  loaded.move_to_level_1();
  ASSERT_TRUE(answer(loaded, 1));
  EXPECT_EQ(loaded.point(0).texts(), 0U);
  EXPECT_EQ(loaded.point(1).texts(), 20'000U);
  EXPECT_FALSE(loaded.point(1).alarm());
  EXPECT_EQ(loaded.point(1).max_drop(), 0.02);
  EXPECT_LT(*loaded.point(1).upper_bound(), 0.02);
  EXPECT_EQ(str(loaded.policies().current()->spec), "entropy:0.2");
}

TEST(Shadow, CountsEqualTextsEachTime) {
  TestShadow test;
  test.sample({"dx", "dx", "dx", "ab"});
  ASSERT_TRUE(test.until_watched(4));
  EXPECT_EQ(test.point().disagreements(), 3U);
}

TEST(Shadow, ComparesLabelSetsWithReference) {
  TestShadow test({.multi_label = true});
  test.sample({"ab", "dx"});  // the second is another one by the reference
  ASSERT_TRUE(test.until_watched(2));
  EXPECT_EQ(test.point().disagreements(), 1U);
}

TEST(Shadow, NormalizesRegressionLossByCertifiedRange) {
  TestShadow test({.range = 5});
  test.sample({"ab"});  // 0.25 early, 1 by the reference
  ASSERT_TRUE(test.until_watched(1));
  EXPECT_DOUBLE_EQ(test.point().losses(), 0.75 / 5);
  EXPECT_EQ(test.point().disagreements(), 1U) << "a small difference is one, too";
}

// Of a loss about a label, the texts that full depth gives it; the others have an alarm of their own, if promised.
TEST(Shadow, WatchesBothSidesOfALabel) {
  for (const bool promised : {true, false}) {
    const Scratch scratch;
    const ShadowSetup setup{.max_drop = 0.02,
                            .loss = loss_named(promised ? "missed:odd,max_false=0.02" : "missed:odd"),
                            .watch_file = scratch.path() / "log.watch"};
    TestShadow test(setup);
    const auto answer = [&](size_t texts, bool early_yes, bool full_yes) {
      for (size_t i = 0; i < texts; ++i) {
        test.reference().answer_with(full_yes ? std::vector<float>{0, 1} : std::vector<float>{1, 0});
        test.sample(Job{.texts = {{.text = std::to_string(i)}}}, StopReason::policy,
                    early_yes ? std::vector<float>{0, 1} : std::vector<float>{1, 0});
        ASSERT_TRUE(test.until([&] { return test.report().pending == 0; }));
      }
    };
    answer(3, true, true);
    EXPECT_EQ(test.point().texts(), 3U);
    answer(40, true, false);
    EXPECT_EQ(test.point().texts(), 3U) << "full depth does not call them so";
    EXPECT_EQ(test.point().losses(), 0);
    EXPECT_EQ(test.point().alarm(), promised);
    answer(1, false, true);
    EXPECT_EQ(test.point().losses(), 1);
    test.shadow().end();
    EXPECT_EQ(TestShadow(setup).point().alarm(), promised) << "a later server knows both sides";
  }
}

// What certificates promise about each problem, counted by hand.
double loss_of(const ShadowSetup& setup, const std::vector<float>& early, const std::vector<float>& full) {
  if (setup.range > 0) return std::min(1.0, std::abs(static_cast<double>(early[0]) - full[0]) / setup.range);
  const auto best = [](const std::vector<float>& logits) { return std::ranges::max_element(logits) - logits.begin(); };
  if (!setup.multi_label) return best(early) == best(full) ? 0 : 1;
  return std::ranges::equal(early, full, [](float a, float b) { return (a > 0) == (b > 0); }) ? 0 : 1;
}

TEST(Shadow, CountsCertifiedLoss) {
  for (const ShadowSetup& setup : {ShadowSetup{}, ShadowSetup{.multi_label = true}, ShadowSetup{.range = 2}}) {
    TestShadow test(setup);
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    double losses = 0;
    for (uint64_t i = 1; i <= 50; ++i) {
      std::vector<float> early(setup.range > 0 ? 1 : 40), full = early;
      for (float& logit : early) logit = normal(random);
      for (size_t c = 0; c < full.size(); ++c) full[c] = early[c] + 0.05F * normal(random);
      test.reference().answer_with(full);
      test.sample(Job{.texts = {{.text = std::to_string(i)}}}, StopReason::policy, early);
      ASSERT_TRUE(test.until_watched(i));
      losses += loss_of(setup, early, full);
      EXPECT_DOUBLE_EQ(test.point().losses(), losses);
    }
    EXPECT_GT(losses, 0);
    EXPECT_LT(losses, 50);
  }
}

TEST(Shadow, RunsSameTokensAsLiveRun) {
  TestShadow test;
  ModelFacts ranker = test.model();
  ranker.outputs = 1;
  const JobRules rules{test.model()}, ranking{ranker};
  std::vector<Job> jobs;
  for (const char* inputs : {R"("ab")", R"([["ab","cd"],["e"]])"})
    jobs.push_back(parse_predict(Json::parse(fmt::format(R"({{"inputs":{}}})", inputs)), rules));
  jobs.push_back(parse_predict(Json{{"inputs", std::string(100, 'a') + "end"}}, rules));
  jobs.push_back(parse_text_classification(Json::parse(R"({"inputs":["fg",{"text":"h","text_pair":"i"}]})"), rules));
  jobs.push_back(parse_classify(Json{{"input", {"jk", "l"}}}, rules));
  jobs.push_back(parse_rerank(Json{{"query", "which"}, {"texts", {"this", "that one"}}}, ranking));
  jobs.push_back(parse_infer(
      Json::parse(R"({"inputs":[{"name":"input_ids","shape":[1,3],"datatype":"INT64","data":[[1,7,2]]}]})"), rules));
  for (const Job& job : jobs) {
    for (size_t i = 0; i < job.texts.size(); ++i) {
      Job one = job;
      one.texts = {job.texts[i]};
      test.sample(one);
      ASSERT_TRUE(test.until([&] { return test.report().pending == 0; }));
      EXPECT_EQ(test.reference().tokens(), encode_text(job, i, test.model(), ByteTokenizer()).ids);
    }
  }
}

TEST(Shadow, RejectsRegressionWithoutRange) {
  Certificate certificate;
  ModelFacts model = fake_model();
  EXPECT_EQ(loss_range(nullptr, model), 0);
  model.problem = Problem::regression;
  EXPECT_EQ(error_of([&] { (void)loss_range(nullptr, model); }).code(), Code::usage);
  EXPECT_EQ(error_of([&] { (void)loss_range(&certificate, model); }).code(), Code::usage);
  model.range = {1, 5};
  EXPECT_EQ(loss_range(&certificate, model), 4);
  certificate.range = {1, 6};
  EXPECT_EQ(loss_range(&certificate, model), 5);
}

TEST(Shadow, CountsFailedComparisonAsDropped) {
  TestShadow test;
  test.sample({"fail"});
  test.sample({"ab"});
  ASSERT_TRUE(test.until_watched(1));
  EXPECT_EQ(test.reference().runs(), 2);
  EXPECT_EQ(test.point().disagreements(), 0U);
  EXPECT_EQ(test.point().dropped(), 1U);
}

}  // namespace
}  // namespace exeunt::serve
