// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/tokenizer_pool.h"

#include <algorithm>
#include <utility>

namespace exeunt {

TokenizerPool::TokenizerPool(const ModelSpec& spec, int threads, Deliver deliver)
    : spec_(spec), thread_count_(static_cast<size_t>(threads)), deliver_(std::move(deliver)) {
  try {
    for (size_t i = 0; i < thread_count_; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {
    stop();
    throw;
  }
}

void TokenizerPool::submit(std::span<AnswerJob> jobs) {
  {
    const std::scoped_lock lock(mutex_);
    const auto before = static_cast<ptrdiff_t>(jobs_.size());
    try {
      for (AnswerJob& job : jobs) jobs_.push_back(std::move(job));
    } catch (...) {  // all or none
      jobs_.erase(jobs_.begin() + before, jobs_.end());
      throw;
    }
  }
  if (jobs.size() == 1) {
    changed_.notify_one();
  } else {
    changed_.notify_all();
  }
}

size_t TokenizerPool::waiting() const {
  const std::scoped_lock lock(mutex_);
  return jobs_.size();
}

void TokenizerPool::stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (AnswerJob& job : jobs_) job.done(Answer{.stop_reason = StopReason::cancelled});
  jobs_.clear();
}

void TokenizerPool::run() {
  std::vector<AnswerJob> batch;
  batch.reserve(kMaxBatch);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    for (size_t count = std::min(kMaxBatch, (jobs_.size() + thread_count_ - 1) / thread_count_); count > 0; --count) {
      batch.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
    }
    lock.unlock();
    size_t made = 0;
    for (AnswerJob& job : batch) {
      if (!tokenize(job)) continue;
      if (&batch[made] != &job) batch[made] = std::move(job);
      ++made;
    }
    if (made > 0) deliver_({batch.data(), made});
    batch.clear();
    lock.lock();
  }
}

bool TokenizerPool::tokenize(AnswerJob& job) const {
  if (job.cancelled->load(std::memory_order_relaxed)) {
    job.done(Answer{.stop_reason = StopReason::cancelled});
    return false;
  }
  try {
    job.source.own = job.source.make();
    job.source.make = {};
    check_text(spec_, job.source.own.ids, job.source.own.types);
    return true;
  } catch (...) {
    job.done(failed_answer(std::current_exception()));
    return false;
  }
}

}  // namespace exeunt
