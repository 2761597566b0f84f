// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/token_front.h"

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
  TokenFront::Take take() {
    return [this](std::span<AnswerJob> jobs) {
      const std::scoped_lock lock(mutex_);
      for (const AnswerJob& job : jobs) {
        ++taken[static_cast<size_t>(job.source.own.ids.at(0))];
        order.push_back(job.source.own.ids.at(0));
      }
      shares.push_back(jobs.size());
    };
  }
  [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }

  std::vector<std::atomic<int>> taken, ended;  // how often each
  std::vector<int32_t> order = {};
  std::vector<size_t> shares = {};

 private:
  std::mutex mutex_ = {};
  std::vector<Answer> answers_ = {};
};

ModelSpec spec_of(int texts) {
  ModelSpec spec = small_spec();
  spec.vocab = texts;
  return spec;
}

TEST(TokenFront, HandsTextsOverInSharesAndInTheirOrder) {
  constexpr int kTexts = 100;
  const ModelSpec spec = spec_of(kTexts);
  Fates fates(kTexts);
  std::latch given(1);
  {
    TokenFront front(spec, 1, fates.take());
    AnswerJob first = fates.job(0, [&] {
      given.wait();
      return Encoding{.ids = {0}, .types = {0}, .offsets = {{}}};
    });
    front.give({&first, 1});
    while (front.waiting() > 0) std::this_thread::yield();
    std::vector<AnswerJob> others;
    for (int i = 1; i < kTexts; ++i) others.push_back(fates.job(i));
    front.give(others);
    EXPECT_EQ(front.waiting(), 99U);
    given.count_down();
    while (front.waiting() > 0) std::this_thread::yield();
  }
  std::vector<int32_t> want(kTexts);
  for (int i = 0; i < kTexts; ++i) want[static_cast<size_t>(i)] = i;
  EXPECT_EQ(fates.order, want);
  EXPECT_EQ(fates.shares, (std::vector<size_t>{1, 32, 32, 32, 3}));
  EXPECT_TRUE(fates.answers().empty());
}

TEST(TokenFront, EveryTextOfManyThreadsIsTakenOnce) {
  constexpr int kTexts = 4000, kGivers = 4;
  const ModelSpec spec = spec_of(kTexts);
  Fates fates(kTexts);
  {
    TokenFront front(spec, 3, fates.take());
    std::vector<std::thread> givers;
    for (int giver = 0; giver < kGivers; ++giver) {
      givers.emplace_back([&, giver] {
        for (int i = giver; i < kTexts; i += kGivers) {
          AnswerJob job = fates.job(i);
          front.give({&job, 1});
        }
      });
    }
    for (std::thread& giver : givers) giver.join();
    while (front.waiting() > 0) std::this_thread::yield();
  }
  for (size_t i = 0; i < kTexts; ++i) EXPECT_EQ(fates.taken[i], 1) << i;
  EXPECT_THAT(fates.shares, Each(Le(TokenFront::kMostAtOnce)));
  EXPECT_TRUE(fates.answers().empty());
}

TEST(TokenFront, ATextThatCannotBeMadeOrIsCancelledEndsAlone) {
  const ModelSpec spec = spec_of(4);
  Fates fates(4);
  {
    TokenFront front(spec, 2, fates.take());
    std::vector<AnswerJob> jobs;
    jobs.push_back(fates.job(0));
    jobs.push_back(fates.job(1, []() -> Encoding { throw std::runtime_error("no such text"); }));
    jobs.push_back(fates.job(2, [] { return Encoding{.ids = {999}, .types = {0}, .offsets = {{}}}; }));
    jobs.push_back(fates.job(3));
    jobs.back().cancelled = std::make_shared<const std::atomic<bool>>(true);
    front.give(jobs);
    while (fates.taken[0] + fates.ended[1] + fates.ended[2] + fates.ended[3] < 4) std::this_thread::yield();
  }
  EXPECT_EQ(fates.order, std::vector<int32_t>{0});
  std::vector<std::string> ends;
  for (const Answer& answer : fates.answers()) ends.push_back(std::string(name_of(answer.ended)) + " " + answer.error);
  EXPECT_THAT(ends,
              ::testing::UnorderedElementsAre(HasSubstr("failed no such text"), HasSubstr("failed"), "cancelled "));
}

TEST(TokenFront, StoppingTakesOrCancelsEveryTextOnce) {
  constexpr int kTexts = 500;
  const ModelSpec spec = spec_of(kTexts);
  Fates fates(kTexts);
  TokenFront front(spec, 2, fates.take());
  std::vector<AnswerJob> jobs;
  for (int i = 0; i < kTexts; ++i) jobs.push_back(fates.job(i));
  front.give(jobs);
  front.stop();
  for (size_t i = 0; i < kTexts; ++i) EXPECT_EQ(fates.taken[i] + fates.ended[i], 1) << i;
  for (const Answer& answer : fates.answers()) EXPECT_EQ(answer.ended, Ended::cancelled);
}

}  // namespace
}  // namespace exeunt
