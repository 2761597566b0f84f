// SPDX-License-Identifier: Apache-2.0
// A thread with a queue, for work too long for the network thread, such as parsing a large body.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace exeunt::serve {

class WorkThread {
 public:
  using Work = std::function<void()>;  // must not throw

  WorkThread() : thread_([this] { run(); }) {}
  // Finishes what runs, drops what waits.
  ~WorkThread() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

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
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace exeunt::serve
