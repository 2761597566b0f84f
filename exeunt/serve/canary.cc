// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/canary.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

constexpr auto kCanaryEvery = 30s, kCanaryAgain = 1s, kCanaryLimit = 10s;

}  // namespace

Canary::Canary(ServiceContext& context, Clock::time_point now)
    : context_(context), last_answer_(now), next_(now + kCanaryEvery) {}

Clock::time_point Canary::wake_at() const noexcept {
  return since_ ? *since_ + kCanaryLimit : next_;
}

void Canary::wake(Clock::time_point now) {
  if (since_ && now - *since_ > kCanaryLimit) {
    ++failures_;
    since_.reset();
    context_.log({.level = "error",
                  .message = "the canary was not answered",
                  .fields = {{"failures", fmt::format("{}", failures_)}}});
  }
  if (now < next_ || since_) return;
  next_ = now + (failures_ > 0 ? kCanaryAgain : kCanaryEvery);
  if (failures_ > 0 || now - last_answer_ >= kCanaryEvery) run(now);
}

void Canary::run(Clock::time_point now) {
  since_ = now;
  const uint64_t round = ++round_;
  const auto make = [this] {
    return context_.runner.tokenizer->encode("canary", std::nullopt, {.max_length = context_.model.max_tokens});
  };
  const auto done = [this, round](Answer&& answer) {
    const bool good = answer.exit >= 0;
    context_.post_or_wait([this, round, good] {
      if (round != round_) return;  // too late: another is running
      since_.reset();
      failures_ = good ? 0 : failures_ + 1;
    });
  };
  try {
    Engine::LazyText text{make, done};
    (void)context_.runner.submit({&text, 1}, Ask{});
  } catch (const std::exception&) {
    since_.reset();
    ++failures_;
  }
}

}  // namespace exeunt::serve
