// SPDX-License-Identifier: Apache-2.0
// What an engine owes its callers wherever it runs; and what comes of a device that is lost on the way.
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "exeunt/engine/backend.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Place {
  std::string device;
  Precision precision;
};

class EngineOn : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (GetParam().device == "cuda" && cuda_devices().devices.empty()) GTEST_SKIP() << cuda_devices().reason;
    if (!supports(engine_traits(options().device), GetParam().precision))
      GTEST_SKIP() << "this device has no such precision";
    engine_.emplace(model_, options());
  }
  [[nodiscard]] static EngineOptions options() {
    return {.device = parse_device(GetParam().device), .precision = GetParam().precision, .threads = 2};
  }
  [[nodiscard]] std::vector<Encoding> texts(int count) const {
    std::vector<Encoding> out;
    for (int i = 0; i < count; ++i)
      out.push_back(random_text(spec_, 1 + i % spec_.max_tokens(), static_cast<uint32_t>(i)));
    return out;
  }

  ModelSpec spec_ = small_spec();
  Checkpoint model_ = make_model(spec_, own_exits(spec_));
  std::optional<Engine> engine_;
};

TEST_P(EngineOn, DescribesItself) {
  EXPECT_THAT(engine_->name(), StartsWith(GetParam().device + "/"));
  EXPECT_EQ(engine_->name(), engine_traits(options().device).name);
  EXPECT_GT(engine_->traits().numerics, 0);
  EXPECT_EQ(engine_->precision(), GetParam().precision);
  EXPECT_GT(engine_->weight_bytes(), 1000U);
  EXPECT_EQ(engine_->waiting(), 0U);
  EXPECT_GE(engine_->threads(), 1);
  EXPECT_EQ(engine_->spec().layers, spec_.layers);
}

TEST_P(EngineOn, RejectsInvalidTextsAndOptions) {
  const auto refused = [&](const Encoding& text, const Ask& ask = {}) {
    return error_of([&] { (void)engine_->answer({&text, 1}, ask); });
  };
  Encoding unknown = random_text(spec_, 3);
  unknown.ids[1] = spec_.vocab;
  EXPECT_EQ(refused({}).code(), Code::bad_file);
  EXPECT_EQ(refused(unknown).code(), Code::bad_file);
  EXPECT_EQ(refused(random_text(spec_, spec_.max_tokens() + 1)).code(), Code::bad_file);
  EXPECT_EQ(refused(random_text(spec_, 3), {.max_layers = 0}).code(), Code::usage);
  EXPECT_TRUE(engine_->answer({}).empty());
  EXPECT_EQ(engine_->trace({}).rows, 0U);
}

TEST_P(EngineOn, AnswersAtRequestedLayerWithDetails) {
  const std::vector<Encoding> some = texts(30);
  for (int layer = 1; layer <= spec_.layers; ++layer) {
    const auto policy = engine_->bind(parse_policy("layer:" + std::to_string(layer)));
    for (const Answer& answer : engine_->answer(some, {.policy = policy})) {
      EXPECT_EQ(answer.layer, layer);
      EXPECT_EQ(answer.layers_run, layer);
      EXPECT_EQ(answer.stop_reason, layer == spec_.layers ? StopReason::last_exit : StopReason::policy);
    }
    for (const Answer& answer : engine_->answer(some, {.max_layers = layer})) {
      EXPECT_EQ(answer.layer, layer);
      EXPECT_EQ(answer.stop_reason, layer == spec_.layers ? StopReason::last_exit : StopReason::max_layers);
    }
  }
  const auto patient = engine_->bind(parse_policy("patience:2"));
  const std::vector<Answer> answers = engine_->answer(some, {.policy = patient, .details = true});
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(answers[i].tokens, static_cast<int>(some[i].ids.size()));
    ASSERT_EQ(answers[i].details.size(), static_cast<size_t>(answers[i].layer));
    EXPECT_EQ(answers[i].details.back().logits, answers[i].logits);
    EXPECT_EQ(answers[i].probabilities.size(), 3U);
  }
}

TEST_P(EngineOn, AnswersEachTextOfManyThreadsOnce) {
  const std::vector<Encoding> some = texts(40);
  const std::vector<Answer> want = engine_->answer(some);
  constexpr int kThreads = 4;
  std::atomic<int> wrong{0}, done{0};
  std::promise<void> all;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < some.size(); ++i) {
          engine_->submit([&, i] { return some[i]; }, {},
                          [&, i](Answer&& answer) {
                            if (answer.logits != want[i].logits) ++wrong;
                            if (++done == kThreads * static_cast<int>(some.size())) all.set_value();
                          });
        }
      });
    }
  }
  ASSERT_EQ(all.get_future().wait_for(std::chrono::minutes(2)), std::future_status::ready);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine_->waiting(), 0U);
}

TEST_P(EngineOn, TicketCancelsAllTextsSubmittedTogether) {
  const std::vector<Encoding> some = texts(40);
  const std::vector<Answer> want = engine_->answer(some);
  for (const bool cancels : {false, true}) {
    std::latch go(1), done(40);
    std::vector<Answer> got(some.size());
    std::vector<Engine::LazyText> together;
    for (size_t i = 0; i < some.size(); ++i) {
      together.push_back({.make =
                              [&, i] {
                                go.wait();
                                return some[i];
                              },
                          .done =
                              [&, i](Answer&& answer) {
                                got[i] = std::move(answer);
                                done.count_down();
                              }});
    }
    const Ticket ticket = engine_->submit(together, {});
    if (cancels) ticket.cancel();
    go.count_down();
    done.wait();
    EXPECT_EQ(got.back().stop_reason, cancels ? StopReason::cancelled : StopReason::last_exit);
    for (size_t i = 0; !cancels && i < some.size(); ++i) EXPECT_EQ(got[i].logits, want[i].logits) << "text " << i;
  }
}

TEST_P(EngineOn, FailedTokenizationFailsThatTextAlone) {
  std::promise<Answer> bad, good;
  engine_->submit([]() -> Encoding { throw Error(Code::bad_file, "no such text"); }, {},
                  [&](Answer&& answer) { bad.set_value(std::move(answer)); });
  engine_->submit([&] { return random_text(spec_, 4); }, {},
                  [&](Answer&& answer) { good.set_value(std::move(answer)); });
  const Answer failed = bad.get_future().get();
  EXPECT_EQ(failed.stop_reason, StopReason::failed);
  EXPECT_EQ(failed.code, Code::bad_file);
  EXPECT_EQ(failed.error, "no such text");
  EXPECT_EQ(good.get_future().get().stop_reason, StopReason::last_exit);
}

TEST_P(EngineOn, DestructorAnswersOrCancelsEveryText) {
  const std::vector<Encoding> some = texts(300);
  std::atomic<int> answered{0}, cancelled{0}, other{0};
  for (const Encoding& text : some) {
    engine_->submit([&] { return text; }, {},
                    [&](Answer&& answer) {
                      ++(answer.stop_reason == StopReason::last_exit   ? answered
                         : answer.stop_reason == StopReason::cancelled ? cancelled
                                                                       : other);
                    });
  }
  engine_.reset();
  EXPECT_EQ(answered + cancelled, static_cast<int>(some.size()));
  EXPECT_EQ(other, 0);
}

TEST_P(EngineOn, PastDeadlineGivesNoAnswerAndCancelledTextStops) {
  const std::vector<Encoding> some = texts(20);
  for (const Answer& late : engine_->answer(some, {.deadline = Clock::now() - std::chrono::seconds(1)})) {
    EXPECT_EQ(late.stop_reason, StopReason::deadline);
    EXPECT_EQ(late.exit, -1);
  }
  std::promise<StopReason> reason;
  const Ticket ticket =
      engine_->submit([&] { return some[5]; }, {}, [&](Answer&& answer) { reason.set_value(answer.stop_reason); });
  ticket.cancel();
  const StopReason how = reason.get_future().get();
  EXPECT_TRUE(how == StopReason::cancelled || how == StopReason::last_exit);
}

INSTANTIATE_TEST_SUITE_P(Here, EngineOn,
                         ::testing::Values(Place{"cpu", Precision::fp32}, Place{"cpu", Precision::bf16},
                                           Place{"cuda", Precision::fp32}, Place{"cuda", Precision::bf16}),
                         [](const auto& param) {
                           return param.param.device + "_" + std::string(name_of(param.param.precision));
                         });

// Stands in for a GPU that is lost while it works: whatever runs then fails with the same reason, until it is back.
class LosableBackend final : public Backend {
 public:
  LosableBackend(const Checkpoint& checkpoint, const std::atomic<bool>& lost)
      : own_(make_cpu_backend(checkpoint, {.precision = Precision::fp32, .threads = 1})), lost_(lost) {
    info_ = own_->info();
    info_.traits = {.name = "cuda/sm_90", .numerics = 7};
  }

  void submit(std::span<AnswerJob> jobs) override {
    if (!lost_) return own_->submit(jobs);
    for (const AnswerJob& job : jobs) job.done(failed_answer(why()));
  }
  void run_passes(std::span<const Encoding> texts, const std::shared_ptr<const PassRequest>& request) override {
    if (!lost_) return own_->run_passes(texts, request);
    for (size_t i = 0; i < texts.size(); ++i) request->done(i, {}, why());
  }
  [[nodiscard]] size_t waiting() const noexcept override { return 0; }

 private:
  static std::exception_ptr why() {
    return std::make_exception_ptr(Error(Code::resources, "CUDA: waiting for a batch failed: the device is lost"));
  }

  std::unique_ptr<Backend> own_;
  const std::atomic<bool>& lost_;
};

TEST(LostDevice, CallsFailWithReasonUntilDeviceIsBack) {
  const ModelSpec spec = small_spec();
  std::atomic<bool> lost{false};
  Engine engine(std::make_unique<LosableBackend>(make_model(spec, own_exits(spec)), lost));
  EXPECT_EQ(engine.name(), "cuda/sm_90");
  const std::vector<Encoding> texts = {random_text(spec, 4), random_text(spec, 9)};
  const std::vector<Answer> want = engine.answer(texts);
  lost = true;
  const auto fails = [](auto&& act) {
    const Error error = error_of(act);
    EXPECT_EQ(error.code(), Code::resources);
    EXPECT_THAT(error.what(), HasSubstr("CUDA: waiting for a batch failed: the device is lost"));
  };
  fails([&] { (void)engine.answer(texts); });
  fails([&] { (void)engine.trace(texts); });
  fails([&] { (void)engine.full_pass(texts[0]); });
  fails([&] { (void)engine.layer_rows(texts, 1, [](size_t, int, std::span<const float>) {}); });
  Answer live;
  engine.submit(texts[0], {}, [&](Answer&& answer) { live = std::move(answer); });
  EXPECT_EQ(live.stop_reason, StopReason::failed);
  EXPECT_EQ(live.code, Code::resources);
  lost = false;
  EXPECT_EQ(engine.answer(texts)[1].logits, want[1].logits);
}

}  // namespace
}  // namespace exeunt
