// SPDX-License-Identifier: Apache-2.0
// CPU threads that tokenize texts for a GPU. A thread takes a batch of the texts that wait and delivers it at once: one
// lock and one call for several texts, since a GPU answers tens of thousands of short ones in a second.
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

class TokenizerPool {
 public:
  static constexpr size_t kMaxBatch = 32;  // texts per delivery: large enough that its cost no longer matters

  // Receives tokenized texts, at most kMaxBatch, and moves from them. Called on a thread of the pool; must not throw.
  using Deliver = std::function<void(std::span<AnswerJob> jobs)>;

  // The tokens must fit `spec`, which outlives it.
  TokenizerPool(const ModelSpec& spec, int threads, Deliver deliver);
  ~TokenizerPool() { stop(); }
  TokenizerPool(const TokenizerPool&) = delete;
  TokenizerPool& operator=(const TokenizerPool&) = delete;

  // Texts that come as functions; moves from them. One that cannot be tokenized fails, one that is cancelled ends.
  void submit(std::span<AnswerJob> jobs);
  [[nodiscard]] size_t waiting() const;
  // Delivers what is being tokenized and cancels what waits. Nothing may be submitted afterwards.
  void stop() noexcept;

 private:
  void run();
  [[nodiscard]] bool tokenize(AnswerJob& job) const;  // false: it has been answered

  const ModelSpec& spec_;
  const size_t thread_count_;
  const Deliver deliver_;
  mutable std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  std::deque<AnswerJob> jobs_ = {};
  bool closing_ = false;
  std::vector<std::thread> threads_ = {};
};

}  // namespace exeunt
