// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/token_front.h"

#include <algorithm>
#include <utility>

#include "exeunt/engine/check_text.h"

namespace exeunt {

TokenFront::TokenFront(const ModelSpec& spec, int threads, Take take)
    : spec_(spec), thread_count_(static_cast<size_t>(threads)), take_(std::move(take)) {
  try {
    for (size_t i = 0; i < thread_count_; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {
    stop();
    throw;
  }
}

void TokenFront::give(std::span<AnswerJob> jobs) {
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

size_t TokenFront::waiting() const {
  const std::scoped_lock lock(mutex_);
  return jobs_.size();
}

void TokenFront::stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (AnswerJob& job : jobs_) job.done(Answer{.ended = Ended::cancelled});
  jobs_.clear();
}

void TokenFront::run() {
  std::vector<AnswerJob> share;
  share.reserve(kMostAtOnce);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    for (size_t count = std::min(kMostAtOnce, (jobs_.size() + thread_count_ - 1) / thread_count_); count > 0; --count) {
      share.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
    }
    lock.unlock();
    size_t made = 0;
    for (AnswerJob& job : share) {
      if (!make_tokens(job)) continue;
      if (&share[made] != &job) share[made] = std::move(job);
      ++made;
    }
    if (made > 0) take_({share.data(), made});
    share.clear();
    lock.lock();
  }
}

bool TokenFront::make_tokens(AnswerJob& job) const {
  if (job.cancelled->load(std::memory_order_relaxed)) {
    job.done(Answer{.ended = Ended::cancelled});
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
