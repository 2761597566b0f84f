// SPDX-License-Identifier: Apache-2.0
// Threads of the processor that make the tokens of texts in front of a device. A thread takes its share of those that
// wait and hands them over together: one lock and one call for several texts, since a GPU takes tens of thousands of
// short ones in a second.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "exeunt/engine/backend.h"

namespace exeunt {

class TokenFront {
 public:
  static constexpr size_t kMostAtOnce = 32;  // texts of a share: so many that the hand-over no longer counts

  // Takes texts that have their tokens, at most kMostAtOnce, and moves from them. On a thread of the front; must not
  // throw.
  using Take = std::function<void(std::span<AnswerJob> jobs)>;

  // The tokens must fit `spec`, which outlives it.
  TokenFront(const ModelSpec& spec, int threads, Take take);
  ~TokenFront() { stop(); }
  TokenFront(const TokenFront&) = delete;
  TokenFront& operator=(const TokenFront&) = delete;

  // Texts that come as functions; moves from them. One whose tokens cannot be made fails, one that is cancelled ends.
  void give(std::span<AnswerJob> jobs);
  [[nodiscard]] size_t waiting() const;
  // Hands over what is being made and cancels what waits. Nothing may be given afterwards.
  void stop() noexcept;

 private:
  void run();
  [[nodiscard]] bool make_tokens(AnswerJob& job) const;  // false: it has been answered

  const ModelSpec& spec_;
  const size_t thread_count_;
  const Take take_;
  mutable std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  std::deque<AnswerJob> jobs_ = {};
  bool closing_ = false;
  std::vector<std::thread> threads_ = {};
};

}  // namespace exeunt
