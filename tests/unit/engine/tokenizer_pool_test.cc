// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/tokenizer_pool.h"

#include <atomic>
#include <latch>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;

// What became of numbered texts: their number is their only token.
class Fates {
 public:
  explicit Fates(int texts) : taken(static_cast<size_t>(texts)), ended(static_cast<size_t>(texts)) {}

  AnswerJob job(int nth, Engine::MakeEncoding make = {}) {
    if (!make) {
      make = [nth] { return Encoding{.ids = {nth}, .types = {0}, .offsets = {{}}}; };
    }
    const auto done = [this, nth](Answer&& answer) {
      ++ended[static_cast<size_t>(nth)];
      const std::scoped_lock lock(mutex_);
      answers_.push_back(std::move(answer));
    };
    return {.source = {.make = std::move(make)},
            .done = done,
            .cancelled = std::make_shared<const std::atomic<bool>>(false)};
  }
  TokenizerPool::Deliver deliver() {
    return [this](std::span<AnswerJob> jobs) {
      const std::scoped_lock lock(mutex_);
      for (const AnswerJob& job : jobs) {
        ++taken[static_cast<size_t>(job.source.own.ids.at(0))];
        order.push_back(job.source.own.ids.at(0));
      }
      batches.push_back(jobs.size());
    };
  }
  [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }

  std::vector<std::atomic<int>> taken, ended;  // how often each
  std::vector<int32_t> order = {};
  std::vector<size_t> batches = {};

 private:
  std::mutex mutex_ = {};
  std::vector<Answer> answers_ = {};
};

ModelSpec spec_of(int texts) {
  ModelSpec spec = small_spec();
  spec.vocab = texts;
  return spec;
}

TEST(TokenizerPool, DeliversTextsInBatchesAndInOrder) {
  constexpr int kTexts = 100;
  const ModelSpec spec = spec_of(kTexts);
  Fates fates(kTexts);
  std::latch given(1);
  {
    TokenizerPool pool(spec, 1, fates.deliver());
    AnswerJob first = fates.job(0, [&] {
      given.wait();
      return Encoding{.ids = {0}, .types = {0}, .offsets = {{}}};
    });
    pool.submit({&first, 1});
    while (pool.waiting() > 0) std::this_thread::yield();
    std::vector<AnswerJob> others;
    for (int i = 1; i < kTexts; ++i) others.push_back(fates.job(i));
    pool.submit(others);
    EXPECT_EQ(pool.waiting(), 99U);
    given.count_down();
    while (pool.waiting() > 0) std::this_thread::yield();
  }
  std::vector<int32_t> want(kTexts);
  for (int i = 0; i < kTexts; ++i) want[static_cast<size_t>(i)] = i;
  EXPECT_EQ(fates.order, want);
  EXPECT_EQ(fates.batches, (std::vector<size_t>{1, 32, 32, 32, 3}));
  EXPECT_TRUE(fates.answers().empty());
}

TEST(TokenizerPool, DeliversEachTextOfManyThreadsOnce) {
  constexpr int kTexts = 4000, kGivers = 4;
  const ModelSpec spec = spec_of(kTexts);
  Fates fates(kTexts);
  {
    TokenizerPool pool(spec, 3, fates.deliver());
    std::vector<std::thread> givers;
    for (int giver = 0; giver < kGivers; ++giver) {
      givers.emplace_back([&, giver] {
        for (int i = giver; i < kTexts; i += kGivers) {
          AnswerJob job = fates.job(i);
          pool.submit({&job, 1});
        }
      });
    }
    for (std::thread& giver : givers) giver.join();
    while (pool.waiting() > 0) std::this_thread::yield();
  }
  for (size_t i = 0; i < kTexts; ++i) EXPECT_EQ(fates.taken[i], 1) << i;
  EXPECT_THAT(fates.batches, Each(Le(TokenizerPool::kMaxBatch)));
  EXPECT_TRUE(fates.answers().empty());
}

TEST(TokenizerPool, FailedOrCancelledTextEndsAlone) {
  const ModelSpec spec = spec_of(4);
  Fates fates(4);
  {
    TokenizerPool pool(spec, 2, fates.deliver());
    std::vector<AnswerJob> jobs;
    jobs.push_back(fates.job(0));
    jobs.push_back(fates.job(1, []() -> Encoding { throw std::runtime_error("no such text"); }));
    jobs.push_back(fates.job(2, [] { return Encoding{.ids = {999}, .types = {0}, .offsets = {{}}}; }));
    jobs.push_back(fates.job(3));
    jobs.back().cancelled = std::make_shared<const std::atomic<bool>>(true);
    pool.submit(jobs);
    while (fates.taken[0] + fates.ended[1] + fates.ended[2] + fates.ended[3] < 4) std::this_thread::yield();
  }
  EXPECT_EQ(fates.order, std::vector<int32_t>{0});
  std::vector<std::string> ends;
  for (const Answer& answer : fates.answers())
    ends.push_back(std::string(name_of(answer.stop_reason)) + " " + answer.error);
  EXPECT_THAT(ends,
              ::testing::UnorderedElementsAre(HasSubstr("failed no such text"), HasSubstr("failed"), "cancelled "));
}

TEST(TokenizerPool, StopDeliversOrCancelsEachTextOnce) {
  constexpr int kTexts = 500;
  const ModelSpec spec = spec_of(kTexts);
  Fates fates(kTexts);
  TokenizerPool pool(spec, 2, fates.deliver());
  std::vector<AnswerJob> jobs;
  for (int i = 0; i < kTexts; ++i) jobs.push_back(fates.job(i));
  pool.submit(jobs);
  pool.stop();
  for (size_t i = 0; i < kTexts; ++i) EXPECT_EQ(fates.taken[i] + fates.ended[i], 1) << i;
  for (const Answer& answer : fates.answers()) EXPECT_EQ(answer.stop_reason, StopReason::cancelled);
}

}  // namespace
}  // namespace exeunt
