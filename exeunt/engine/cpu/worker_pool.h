// SPDX-License-Identifier: Apache-2.0
// The thread pool of the CPU engine. A worker takes tasks from a queue; an idle one helps with the parts of a running
// task (parallel_for). Idle workers spin and yield for a while, then sleep; no more of them help than there are
// processors.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace exeunt {

struct WorkerPoolOptions {
  int threads = 1;
  int processors = 1;  // helpers and running tasks together do not exceed this
  bool help = true;
};

class WorkerPool {
 public:
  // One thread of the pool, as its task sees it.
  class Worker {
   public:
    [[nodiscard]] int index() const noexcept { return index_; }
    // How many threads would run the parts of a parallel_for now, this one included. Split work into a few more parts.
    [[nodiscard]] int workers() const noexcept;
    // The same with all who sleep and may help. They wake up during a long parallel_for, so long work is split for
    // them.
    [[nodiscard]] int max_workers() const noexcept;
    // Wakes as many helpers as there are idle processors. Worth calling every few hundred microseconds.
    void wake_helpers() const noexcept;

    // Calls part(i, worker) for every i in [0, parts), here and on helpers, also on those that wake up meanwhile;
    // `worker` is the index of the thread. Returns when all are done. `part` must not throw. Allocates nothing.
    template <class Part>
    void parallel_for(int parts, const Part& part) {
      if (parts <= 1 || parts > kMaxParts || (workers() == 1 && pool_->free_processors() <= 0)) {
        for (int i = 0; i < parts; ++i) part(i, index_);
        return;
      }
      run_parts(
          parts, [](const void* context, int i, int worker) { (*static_cast<const Part*>(context))(i, worker); },
          &part);
    }

   private:
    friend class WorkerPool;
    static constexpr int kMaxParts = 0xffff;
    using Call = void (*)(const void* context, int part, int worker);
    void run_parts(int parts, Call call, const void* context) noexcept;

    WorkerPool* pool_ = nullptr;
    int index_ = 0;
  };
  using Task = std::function<void(Worker&)>;  // must not throw

  explicit WorkerPool(const WorkerPoolOptions& options);
  ~WorkerPool();  // runs queued tasks, then stops
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void push(Task task);
  [[nodiscard]] size_t waiting() const noexcept { return queued_.load(std::memory_order_relaxed); }
  [[nodiscard]] int threads() const noexcept { return static_cast<int>(workers_.size()); }

 private:
  static constexpr int kNoProcessor = -2;

  // The parallel_for of a running task. `ticket` is (round, parts, next part): whoever advances `next` owns the part.
  // The fields below it change only between rounds, and a round ends only when all claimed parts are done.
  struct alignas(64) SharedWork {
    std::atomic<uint64_t> ticket{0};
    std::atomic<uint32_t> left{0};
    Worker::Call call = nullptr;
    const void* context = nullptr;
    std::atomic<int> processor{kNoProcessor};  // of the task, at its last parallel_for
  };

  // A sleeping worker waits on this; under mutex_.
  struct Parker {
    std::condition_variable wake;
    bool notified = false;
    int processor = kNoProcessor;
  };

  void loop(Worker& worker);
  [[nodiscard]] Task next(Worker& worker);
  void help(const Worker& worker) noexcept;
  bool work_on(SharedWork& work, const Worker& worker) noexcept;  // one part; false: none is left
  [[nodiscard]] int free_processors() const noexcept;             // that more helpers could use
  // The next two under mutex_.
  void sleep(const Worker& worker, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Parker* unpark_one(int taken);  // the caller notifies it

  WorkerPoolOptions options_;
  std::vector<Worker> workers_;
  std::unique_ptr<SharedWork[]> shared_;
  std::unique_ptr<Parker[]> parkers_;
  std::atomic<size_t> queued_{0};
  std::atomic<int> running_{0}, helping_{0}, asleep_{0};
  std::mutex mutex_;
  std::deque<Task> queue_;     // under mutex_, like the next two
  std::vector<int> sleepers_;  // most recent last
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace exeunt
