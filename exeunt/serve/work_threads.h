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

class WorkThreads {
 public:
  using Work = std::function<void()>;  // must not throw

  explicit WorkThreads(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
  }
  // Finishes what runs, drops what waits.
  ~WorkThreads() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  void give(Work work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      Work work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      work = {};  // freed outside the lock
      lock.lock();
    }
  }

  std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  std::deque<Work> waiting_ = {};
  bool ending_ = false;
  std::vector<std::thread> threads_ = {};  // last: they use all of the above
};

}  // namespace exeunt::serve
