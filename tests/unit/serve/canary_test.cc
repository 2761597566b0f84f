// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/canary.h"

#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/fake_engine.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

class CanaryTest : public testing::Test {
 protected:
  ~CanaryTest() override { fake_.end_engine(); }

  // Wakes it when it asks to be woken, `times` times.
  void wake(int times) {
    for (int i = 0; i < times; ++i) {
      now_ = std::max(now_, canary_.wake_at()) + 1us;
      canary_.wake(now_);
    }
  }
  bool answered(int texts) {
    if (!fake_.wait_for_post()) return false;
    fake_.run_posted();
    return fake_.engine().begun() == texts;
  }

  FakeContext fake_;
  ServiceContext context_ = fake_.context();
  Clock::time_point start_ = Clock::time_point{} + 1h, now_ = start_;
  Canary canary_{context_, start_};
};

TEST_F(CanaryTest, RunsAfterThirtySecondsWithoutAnswer) {
  EXPECT_EQ(canary_.wake_at(), start_ + 30s);
  canary_.wake(start_ + 29s);
  EXPECT_EQ(canary_.wake_at(), start_ + 30s);
  canary_.on_answer(start_ + 20s);
  canary_.wake(start_ + 30s);
  EXPECT_EQ(canary_.wake_at(), start_ + 60s);  // none is under way: its limit would come earlier
  canary_.wake(start_ + 60s);
  EXPECT_EQ(canary_.wake_at(), start_ + 70s);
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(canary_.wake_at(), start_ + 90s);
  EXPECT_TRUE(canary_.healthy());
  EXPECT_EQ(fake_.log(), "");
}

TEST_F(CanaryTest, UnhealthyAfterTwoFailuresUntilOneSucceeds) {
  fake_.engine().hold(true);
  wake(2);  // the first begins, and its limit passes
  EXPECT_TRUE(canary_.healthy());
  EXPECT_THAT(fake_.log(), testing::HasSubstr("the canary was not answered failures=1"));
  wake(2);
  EXPECT_FALSE(canary_.healthy());
  fake_.engine().hold(false);
  EXPECT_TRUE(fake_.until([&] { return canary_.healthy(); }));
}

TEST_F(CanaryTest, ClientAnswerClearsFailures) {
  fake_.engine().hold(true);
  wake(2);
  canary_.on_answer(now_);
  wake(3);
  EXPECT_TRUE(canary_.healthy());  // one failure, not two
  wake(2);
  EXPECT_FALSE(canary_.healthy());
  canary_.on_answer(now_);
  EXPECT_TRUE(canary_.healthy());
}

TEST_F(CanaryTest, IgnoresLateAnswerOfEarlierCanary) {
  std::vector<Engine::Done> waiting;
  context_.runner.submit = [&](std::span<Engine::LazyText> texts, const Ask&) {
    waiting.push_back(std::move(texts[0].done));
    return Ticket(std::make_shared<std::atomic<bool>>(false));
  };
  wake(3);
  ASSERT_EQ(waiting.size(), 2U);
  waiting[0](Answer{.exit = 1});
  fake_.run_posted();
  wake(1);
  EXPECT_FALSE(canary_.healthy());
  waiting[1](Answer{.exit = 1});
  fake_.run_posted();
}

TEST_F(CanaryTest, RunsAtOnceAfterDeviceFailure) {
  fake_.engine().lose_device(true);
  canary_.on_failure(start_ + 1s);
  EXPECT_EQ(canary_.wake_at(), start_ + 1s);
  EXPECT_TRUE(canary_.healthy());
  wake(1);
  ASSERT_TRUE(answered(1));
  EXPECT_FALSE(canary_.healthy());
  fake_.engine().lose_device(false);
  wake(1);
  ASSERT_TRUE(answered(2));
  EXPECT_TRUE(canary_.healthy());
}

TEST_F(CanaryTest, UnhealthyWhenSubmitThrows) {
  context_.runner.submit = [](auto&&...) -> Ticket { throw std::runtime_error("closed"); };
  wake(2);
  EXPECT_FALSE(canary_.healthy());
}

}  // namespace
}  // namespace exeunt::serve
