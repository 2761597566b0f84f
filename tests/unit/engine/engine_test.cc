// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "exeunt/engine/cpu/pack_run.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"
#include "tests/fixtures/scratch.h"
#include "tests/reference/reference.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/engine/tables.h"

namespace exeunt {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<Encoding> random_texts(const ModelSpec& spec, int count) {
  std::vector<Encoding> texts;
  for (int i = 0; i < count; ++i) {
    texts.push_back(random_text(spec, 1 + i * 7 % spec.max_tokens(), static_cast<uint32_t>(i + 1)));
  }
  return texts;
}

Ask ask_for(const Engine& engine, std::string_view policy) {
  return {.policy = engine.bind(parse_policy(policy))};
}

// An engine of one thread that is held up until `open`: whatever is submitted waits behind.
class Gate {
 public:
  explicit Gate(Engine& engine, Encoding text) {
    engine.submit(
        [this, text = std::move(text)] {
          std::unique_lock lock(mutex_);
          closed_ = true;
          changed_.notify_all();
          changed_.wait(lock, [&] { return open_; });
          return text;
        },
        {}, [](Answer&&) {});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false, open_ = false;
};

TEST(Engine, MatchesReferenceInFp32OnEveryFamilyAndTable) {
  for (const Kernels* table : tables_here()) {
    for (const FamilyRow& row : families()) {
      const Family family = row.spec.family;
      const ModelSpec spec = small_spec(family);
      const Checkpoint checkpoint = make_model(spec, own_exits(spec));
      const Reference reference(checkpoint);
      Engine engine(checkpoint, {.precision = Precision::fp32, .threads = 2, .kernels = table});
      for (const Encoding& text : random_texts(spec, 6)) {
        const ReferenceTrace want = reference.trace(text);
        const Engine::FullPass got = engine.full_pass(text);
        ASSERT_EQ(got.logits.size(), want.logits.size());
        for (size_t i = 0; i < want.logits.size(); ++i) EXPECT_NEAR(got.logits[i], want.logits[i], 2e-5F);
      }
    }
  }
}

TEST(Engine, DescribesItself) {
  const ModelSpec spec = small_spec();
  const Engine engine(make_model(spec, own_exits(spec)), {.threads = 3, .kernels = &kernels_named("generic")});
  EXPECT_EQ(engine.name(), "cpu/generic");
  EXPECT_EQ(engine.precision(), kernels_named("generic").bf16 ? Precision::bf16 : Precision::fp32);
  EXPECT_EQ(engine.threads(), 3);
  EXPECT_EQ(engine.waiting(), 0U);
  EXPECT_GT(engine.weight_bytes(), 1000U);
  EXPECT_EQ(engine.spec().layers, 3);
  EXPECT_THAT(engine.exits().sites, SizeIs(3));
}

TEST(Engine, RejectsBareBackboneAndUnsupportedPrecision) {
  const ModelSpec spec = small_spec();
  const Error bare = error_of([&] { const Engine engine(make_model(spec, {})); });
  EXPECT_EQ(bare.code(), Code::bad_file);
  EXPECT_THAT(bare.what(), HasSubstr("no head"));

  Kernels plain = kernels_named("generic");
  plain.bf16 = false;
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const Error half =
      error_of([&] { const Engine engine(checkpoint, {.precision = Precision::bf16, .kernels = &plain}); });
  EXPECT_EQ(half.code(), Code::resources);
  EXPECT_THAT(half.what(), HasSubstr("precision bf16"));
  EXPECT_EQ(Engine(checkpoint, {.kernels = &plain}).precision(), Precision::fp32);

  plain.runs_on = [](const CpuFeatures&) { return false; };
  EXPECT_EQ(error_of([&] { const Engine engine(checkpoint, {.kernels = &plain}); }).code(), Code::resources);
}

TEST(Engine, RejectsNonFiniteWeightsByName) {
  const ModelSpec spec = small_spec();
  std::vector<float> weight(static_cast<size_t>(spec.hidden * spec.inner), 0.1F);
  weight[7] = NAN;
  const Error error = error_of([&] {
    const Engine engine(make_model(spec, own_exits(spec), {{"layer.1.ffn2.weight", weight}}));
  });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("'layer.1.ffn2.weight': element 7: got nan"));
  weight.assign(static_cast<size_t>(spec.vocab * spec.embedding), INFINITY);
  EXPECT_THAT(error_of([&] {
                const Engine engine(make_model(spec, own_exits(spec), {{"embeddings.word.weight", weight}}));
              }).what(),
              HasSubstr("'embeddings.word.weight': element 0: got inf"));
}

TEST(Engine, RejectsInvalidTexts) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  const auto refused = [&](Encoding text) {
    return std::string(error_of([&] { engine.submit(std::move(text), {}, [](Answer&&) {}); }).what());
  };
  EXPECT_THAT(refused({}), HasSubstr("no tokens"));
  EXPECT_THAT(refused(random_text(spec, spec.max_tokens() + 1)), HasSubstr("at most 24"));
  Encoding strange = random_text(spec, 3);
  strange.ids[1] = spec.vocab;
  EXPECT_THAT(refused(strange), HasSubstr("token 2: got id 30"));
  EXPECT_THAT(error_of([&] { (void)engine.answer(std::vector{strange}); }).what(), HasSubstr("got id 30"));
  EXPECT_THAT(error_of([&] { (void)engine.full_pass(strange); }).what(), HasSubstr("got id 30"));
  EXPECT_THAT(error_of([&] { (void)engine.trace(std::vector{strange}); }).what(), HasSubstr("got id 30"));
}

TEST(Engine, FailedTokenizationIsReportedInAnswer) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  std::vector<Answer> answers;
  const auto keep = [&](Answer&& answer) { answers.push_back(std::move(answer)); };
  engine.submit([]() -> Encoding { throw Error(Code::bad_file, "no such words"); }, {}, keep);
  engine.submit([&] { return random_text(spec, 30); }, {}, keep);
  (void)engine.answer(std::vector{random_text(spec, 2)});  // one thread: the others are done before this one
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].stop_reason, StopReason::failed);
  EXPECT_EQ(answers[0].exit, -1);
  EXPECT_EQ(answers[0].error, "no such words");
  EXPECT_THAT(answers[1].error, HasSubstr("got 30 tokens"));
}

TEST(Engine, AnswersAtLastExitWithoutPolicy) {
  const ModelSpec spec = small_spec();
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  Engine engine(checkpoint, {.precision = Precision::fp32, .threads = 2});
  const std::vector<Encoding> texts = random_texts(spec, 5);
  const std::vector<Answer> answers = engine.answer(texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Engine::FullPass pass = engine.full_pass(texts[i]);
    EXPECT_EQ(answers[i].stop_reason, StopReason::last_exit);
    EXPECT_EQ(answers[i].exit, 2);
    EXPECT_EQ(answers[i].layer, 3);
    EXPECT_EQ(answers[i].layers_run, 3);
    EXPECT_EQ(answers[i].tokens, static_cast<int>(texts[i].ids.size()));
    EXPECT_EQ(answers[i].logits, std::vector<float>(pass.logits.end() - 3, pass.logits.end()));
    ASSERT_THAT(answers[i].probabilities, SizeIs(3));
    EXPECT_NEAR(answers[i].probabilities[0] + answers[i].probabilities[1] + answers[i].probabilities[2], 1, 1e-6);
    EXPECT_THAT(answers[i].details, IsEmpty());
  }
}

TEST(Engine, ExitsByPolicyAndListsEvaluatedExits) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  const Encoding text = random_text(spec, 9);
  const Engine::FullPass pass = engine.full_pass(text);
  Ask ask = ask_for(engine, "layer:2");
  ask.details = true;
  const Answer fixed = engine.answer(std::vector{text}, ask).front();
  EXPECT_EQ(fixed.stop_reason, StopReason::policy);
  EXPECT_EQ(fixed.exit, 1);
  EXPECT_EQ(fixed.layers_run, 2);
  EXPECT_THAT(fixed.details, SizeIs(1));

  ask = ask_for(engine, "patience:2");  // the earliest exit it can take is the third
  ask.details = true;
  const Answer patient = engine.answer(std::vector{text}, ask).front();
  ASSERT_THAT(patient.details, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(patient.details[i].exit, static_cast<int>(i));
    EXPECT_EQ(patient.details[i].layer, static_cast<int>(i) + 1);
    EXPECT_EQ(patient.details[i].logits, std::vector<float>(pass.logits.begin() + static_cast<ptrdiff_t>(3 * i),
                                                            pass.logits.begin() + static_cast<ptrdiff_t>(3 * i + 3)));
  }
}

// Scores and decisions have temperatures of their own: one shapes what is shown, the other what is judged.
TEST(Engine, ScoreTemperatureChangesProbabilitiesOnly) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  PolicySpec policy = parse_policy("layer:3");
  policy.temperature = {1, 1, 0.5F};
  policy.score_temperature = {1, 1, 4};
  const Answer answer = engine.answer(std::vector{random_text(spec, 4)}, {.policy = engine.bind(policy)}).front();
  double total = 0;
  for (const float z : answer.logits) total += std::exp(z / 4);
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(answer.probabilities[c], std::exp(answer.logits[c] / 4) / total, 1e-6);
  EXPECT_EQ(answer.evidence.confidence, compute_evidence(ExitLogits{answer.logits.data(), 3, 0.5F}).confidence);
}

// `max_layers` may stop a text at an exit that the policy passes over. Its temperature still holds there, for what is
// said of the answer as for its probabilities.
TEST(Engine, TemperatureAppliesAtExitsThePolicySkips) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  PolicySpec policy = parse_policy("confidence:1");
  policy.exits = {3};
  policy.temperature = policy.score_temperature = {1, 4, 1};
  const Ask ask{.policy = engine.bind(policy), .max_layers = 2};
  const Answer answer = engine.answer(std::vector{random_text(spec, 4)}, ask).front();
  ASSERT_EQ(answer.layer, 2);
  double total = 0, largest = 0;
  for (const float z : answer.logits) {
    total += std::exp(z / 4);
    largest = std::max<double>(largest, std::exp(z / 4));
  }
  EXPECT_NEAR(answer.evidence.confidence, largest / total, 1e-6);
  EXPECT_FLOAT_EQ(answer.evidence.confidence, *std::ranges::max_element(answer.probabilities));
}

TEST(Engine, RegressionAnswersWithValue) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec, 1);
  layout.problem = Problem::regression;
  layout.labels.clear();
  Engine engine(make_model(spec, layout), {.threads = 1});
  const Answer answer = engine.answer(std::vector{random_text(spec, 4)}, ask_for(engine, "patience:1,tol=0.5")).front();
  EXPECT_EQ(answer.evidence.value, answer.logits[0]);
  EXPECT_THAT(answer.probabilities, IsEmpty());
}

TEST(Engine, MaxLayersAnswersAtDeepestExitAllowed) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.sites.erase(layout.sites.begin());  // exits after layers 2 and 3
  for (ExitSite& site : layout.sites)
    site = {.after = site.after, .pooler = site.after - 2, .classifier = site.after - 2};
  Engine engine(make_model(spec, layout), {.threads = 1});
  const std::vector<Encoding> texts = {random_text(spec, 9)};
  const Answer two = engine.answer(texts, {.max_layers = 2}).front();
  EXPECT_EQ(two.stop_reason, StopReason::max_layers);
  EXPECT_EQ(two.exit, 0);
  EXPECT_EQ(two.layers_run, 2);
  EXPECT_EQ(engine.answer(texts, {.max_layers = 7}).front().stop_reason, StopReason::last_exit);
  Ask ask = ask_for(engine, "layer:2");
  ask.max_layers = 2;
  EXPECT_EQ(engine.answer(texts, ask).front().stop_reason, StopReason::policy);
  const Error error = error_of([&] { (void)engine.answer(texts, {.max_layers = 1}); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("got 1, but the first exit sits after layer 2"));
}

// A clock that goes on by a millisecond whenever somebody looks at it. The engine looks when a text begins, before its
// embedding, and before each layer.
struct TickingClock {
  static inline std::atomic<int> looks = 0;
  static Clock::time_point now() { return at(++looks); }
  static Clock::time_point at(int look) { return Clock::time_point{} + milliseconds(look); }
};

TEST(Engine, DeadlineGivesDeepestAnswerSoFar) {
  ModelSpec spec = small_spec();
  spec.layers = 20;
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1, .now = TickingClock::now});
  const Encoding text = random_text(spec, 24);
  const Engine::FullPass pass = engine.full_pass(text);
  const int last = static_cast<int>(pass.logits.size()) / 3 - 1;
  int before = -1;
  for (int looks = 1; looks < 30; ++looks) {
    TickingClock::looks = 0;
    const Answer answer = engine.answer(std::vector{text}, {.deadline = TickingClock::at(looks)}).front();
    EXPECT_GE(answer.exit, before);  // more time, no worse an answer
    before = answer.exit;
    EXPECT_EQ(answer.stop_reason, answer.exit == last ? StopReason::last_exit : StopReason::deadline) << looks;
    EXPECT_EQ(answer.layers_run == 0, looks <= 3) << looks;
    if (answer.exit < 0) continue;
    const auto at = pass.logits.begin() + 3 * answer.exit;
    EXPECT_EQ(answer.logits, std::vector<float>(at, at + 3));
    EXPECT_EQ(answer.layer, answer.layers_run);
  }
  EXPECT_EQ(before, last);
}

// Who looks at the clock only behind each layer is never done before the deadline that ended the text.
TEST(Engine, DoesNotBeginLayerThatWouldMissDeadline) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1, .now = TickingClock::now});
  TickingClock::looks = 0;
  const Answer answer = engine.answer(std::vector{random_text(spec, 5)}, {.deadline = TickingClock::at(5)}).front();
  EXPECT_EQ(answer.stop_reason, StopReason::deadline);
  EXPECT_EQ(answer.layers_run, 1);
  EXPECT_LT(TickingClock::looks, 5);
}

TEST(Engine, CancelsOneTextAndFinishesOthers) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  Gate gate(engine, random_text(spec, 3));
  std::vector<StopReason> reasons;
  const auto keep = [&](Answer&& answer) { reasons.push_back(answer.stop_reason); };
  const Ticket first = engine.submit(random_text(spec, 4), {}, keep);
  engine.submit(random_text(spec, 5), {}, keep);  // its ticket goes away: that does not cancel
  EXPECT_EQ(engine.waiting(), 2U);
  first.cancel();
  gate.open();
  (void)engine.answer(std::vector{random_text(spec, 2)});
  EXPECT_THAT(reasons, ElementsAre(StopReason::cancelled, StopReason::last_exit));
  Ticket().cancel();  // of nothing
}

// The text that runs cannot see that the engine's end has begun, so it waits for longer and longer.
TEST(Engine, DestructorCancelsWaitingAndFinishesRunningTexts) {
  const ModelSpec spec = small_spec();
  std::vector<StopReason> reasons;
  for (auto wait = milliseconds(5);
       wait < milliseconds(60'000) && !testing::Value(reasons, testing::Contains(StopReason::cancelled)); wait *= 4) {
    reasons.clear();
    const auto keep = [&](Answer&& answer) { reasons.push_back(answer.stop_reason); };
    std::optional<Engine> engine(std::in_place, make_model(spec, own_exits(spec)), EngineOptions{.threads = 1});
    std::atomic<bool> begun{false};
    engine->submit(
        [&] {
          begun = true;
          std::this_thread::sleep_for(wait);
          return random_text(spec, 3);
        },
        {}, keep);
    engine->submit(random_text(spec, 4), {}, keep);
    while (!begun) std::this_thread::yield();
    engine.reset();
  }
  EXPECT_THAT(reasons, UnorderedElementsAre(StopReason::last_exit, StopReason::cancelled));
}

// Large enough that phases are worth sharing, and cut across panels, heads and rows.
TEST(Engine, SplitsOneTextOverThreadsBitEqual) {
  ModelSpec spec = small_spec();
  spec.hidden = spec.embedding = 96;
  spec.heads = 2;
  spec.inner = 200;
  spec.positions = 90;
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const Encoding text = random_text(spec, 83);
  for (const Way& way : ways_here()) {
    Engine alone(checkpoint, {.precision = way.precision, .threads = 1, .kernels = way.kernels});
    const Engine::FullPass want = alone.full_pass(text);
    for (const ClsFirst cls_first : {ClsFirst::never, ClsFirst::always}) {
      Engine engine(checkpoint,
                    {.precision = way.precision, .threads = 3, .cls_first = cls_first, .kernels = way.kernels});
      for (int i = 0; i < 10; ++i) {
        const Engine::FullPass got = engine.full_pass(text);
        ASSERT_EQ(got.row_0, want.row_0) << way.name();
        ASSERT_EQ(got.logits, want.logits) << way.name();
      }
    }
  }
}

TEST(Engine, NamesStopReasons) {
  EXPECT_EQ(name_of(StopReason::policy), "policy");
  EXPECT_EQ(name_of(StopReason::failed), "failed");
}

TEST(Engine, RejectsPolicyThatDoesNotFitModel) {
  const ModelSpec spec = small_spec();
  const Engine engine(make_model(spec, own_exits(spec)), {.threads = 1});
  EXPECT_EQ(error_of([&] { (void)engine.bind(parse_policy("layer:9")); }).code(), Code::usage);
}

TEST(Engine, PrecisionExceptionChangesNamedMatrix) {
  const ModelSpec spec = small_spec();
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const Encoding text = random_text(spec, 9);
  const auto logits = [&](const Exceptions& exceptions) {
    return Engine(checkpoint, {.precision = Precision::int8, .exceptions = exceptions, .threads = 1})
        .full_pass(text)
        .logits;
  };
  const std::vector<float> plain = logits({}), late = logits({{"layer.2.ffn2", Precision::fp32}});
  EXPECT_NE(plain, late);
  EXPECT_EQ(std::vector(plain.begin(), plain.begin() + 6), std::vector(late.begin(), late.begin() + 6));
  for (const char* matrix : {"layer.0.qkv", "layer.0.output", "layer.0.ffn1", "layer.0.ffn2"}) {
    EXPECT_NE(logits({{matrix, Precision::fp32}}), plain) << matrix;
  }
  EXPECT_NE(logits({{"poolers", Precision::int8}}), plain);
  EXPECT_EQ(logits({{"poolers", Engine(checkpoint, {.precision = Precision::int8}).kernels().bf16 ? Precision::bf16
                                                                                                  : Precision::fp32}}),
            plain);
  const Error error = error_of([&] { (void)logits({{"layer.3.ffn2", Precision::fp32}}); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("layer.3.ffn2"));
}

TEST(Engine, ReplayMatchesLiveAnswersWithLastRamp) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.last_ramp = {.pooler = 3, .classifier = 3};
  layout.compat_last_ramp = LastHead::ramp;
  Engine engine(make_model(spec, layout), {.threads = 2});
  const std::vector<Encoding> texts = random_texts(spec, 40);
  const ExitTrace trace = engine.trace(texts);
  int by_ramp = 0, by_final = 0;
  for (const char* policy : {"entropy:0.6", "entropy:0.9", "divergence:0.01,1", "patience:1", "full", "layer:3"}) {
    Replayer replayer(trace, LastHead::ramp);
    const Departures departures = replayer.run(parse_policy(policy));
    const std::vector<Answer> answers = engine.answer(texts, ask_for(engine, policy));
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(answers[i].exit, departures.exit[i]) << policy;
      const auto want = replayer.answer(departures, i);
      ASSERT_EQ(answers[i].logits, std::vector<float>(want.begin(), want.end())) << policy;
      if (departures.exit[i] == 2) ++(departures.by_ramp[i] ? by_ramp : by_final);
    }
  }
  EXPECT_GT(by_ramp, 0);
  EXPECT_GT(by_final, 0);
}

TEST(FirstRow, CostIsAtLeastOneRowBlock) {
  EXPECT_TRUE(first_rows_pay(21, 20));
  EXPECT_FALSE(first_rows_pay(20, 20));
  for (const Way& way : ways_here())
    EXPECT_GE(first_row_cost(*way.kernels, way.precision), way.kernels->row_block(way.precision)) << way.name();
}

TEST(FirstRow, UsesExitRatesOfCalibration) {
  BoundPolicy policy;
  policy.bound.count = 4;
  EXPECT_DOUBLE_EQ(leaving_share(policy, 0), 0.25);  // nothing known: all exits alike
  EXPECT_DOUBLE_EQ(leaving_share(policy, 2), 0.5);
  policy.exit_rates = {0.5F, 0, 0.25F, 0.25F};
  EXPECT_DOUBLE_EQ(leaving_share(policy, 0), 0.5);
  EXPECT_DOUBLE_EQ(leaving_share(policy, 1), 0);
  EXPECT_DOUBLE_EQ(leaving_share(policy, 2), 0.5);
  EXPECT_DOUBLE_EQ(leaving_share(policy, 3), 1);
  policy.exit_rates = {0, 1, 0, 0};
  EXPECT_DOUBLE_EQ(leaving_share(policy, 1), 1);
  EXPECT_DOUBLE_EQ(leaving_share(policy, 2), 0);
}

TEST(FirstRow, UsesLiveExitCounts) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, own_exits(spec)), {.threads = 2});
  const auto policy = engine.bind(parse_policy("patience:1"), {1, 0, 0});
  EXPECT_DOUBLE_EQ(leaving_share(*policy, 0), 1);  // what calibration said, until enough texts went another way
  std::vector<Encoding> texts;
  for (int i = 0; i < 400; ++i) texts.push_back(random_text(spec, 1 + i % 20, static_cast<uint32_t>(i)));
  int second = 0;
  for (const Answer& answer : engine.answer(texts, {.policy = policy})) second += answer.exit == 1;
  ASSERT_GT(second, 64);
  EXPECT_DOUBLE_EQ(leaving_share(*policy, 0), 0);  // nobody can leave at the first exit
  EXPECT_DOUBLE_EQ(leaving_share(*policy, 1), second / 400.0);
  EXPECT_DOUBLE_EQ(leaving_share(*policy, 2), 1);  // the last always answers
}

}  // namespace
}  // namespace exeunt
