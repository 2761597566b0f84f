// SPDX-License-Identifier: Apache-2.0
// Threads with one queue, for work too long for the network thread, such as parsing a large body.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace exeunt::serve {

class ThreadPool {
 public:
  using Work = std::function<void()>;  // must not throw

  explicit ThreadPool(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
  }
  // Finishes running work, drops queued work.
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void submit(Work work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      Work work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = {};  // freed outside the lock
      lock.lock();
    }
  }

  std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  std::deque<Work> queue_ = {};
  bool stopping_ = false;
  std::vector<std::thread> threads_ = {};  // last: they use all of the above
};

}  // namespace exeunt::serve
