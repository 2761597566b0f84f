// SPDX-License-Identifier: Apache-2.0
// The threads of the CPU engine. Each takes tasks from a queue; one that finds none helps with the parts of a running
// task. Waiting threads spin and yield for a while, then sleep; no more threads help than there are processors.
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

struct CrewOptions {
  int threads = 1;
  int processors = 1;  // helpers and running tasks together do not exceed this
  bool help = true;
};

class Crew {
 public:
  // One thread as seen by its task.
  class Member {
   public:
    [[nodiscard]] int index() const noexcept { return index_; }
    // How many threads would work on parts shared now, this one included. Split work into a few more parts than this.
    [[nodiscard]] int hands() const noexcept;
    // The same if everybody came who may. Sleeping threads wake up while a long round lasts, so long work is split for
    // these.
    [[nodiscard]] int most_hands() const noexcept;
    // Wakes as many helpers as there are idle processors. Worth calling every few hundred microseconds.
    void summon() const noexcept;

    // Calls part(i, member) for every i in [0, parts), here and on helpers, also on those who come in the meantime;
    // `member` is the index of the thread. Returns when all are done. `part` must not throw. Allocates nothing.
    template <class Part>
    void share(int parts, const Part& part) {
      if (parts <= 1 || parts > kMaxParts || (hands() == 1 && crew_->room() <= 0)) {
        for (int i = 0; i < parts; ++i) part(i, index_);
        return;
      }
      share_out(
          parts, [](const void* context, int i, int member) { (*static_cast<const Part*>(context))(i, member); },
          &part);
    }

   private:
    friend class Crew;
    static constexpr int kMaxParts = 0xffff;
    using Call = void (*)(const void* context, int part, int member);
    void share_out(int parts, Call call, const void* context) noexcept;

    Crew* crew_ = nullptr;
    int index_ = 0;
  };
  using Task = std::function<void(Member&)>;  // must not throw

  explicit Crew(const CrewOptions& options);
  ~Crew();  // runs queued tasks, then stops
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void push(Task task);
  [[nodiscard]] size_t waiting() const noexcept { return queued_.load(std::memory_order_relaxed); }
  [[nodiscard]] int threads() const noexcept { return static_cast<int>(members_.size()); }

 private:
  static constexpr int kNowhere = -2;  // no processor

  // The shared parts of a running task. `ticket` is (round, parts, next part): whoever advances `next` owns the part.
  // The fields below it change only between rounds, and a round ends only when all claimed parts are done.
  struct alignas(64) Board {
    std::atomic<uint64_t> ticket{0};
    std::atomic<uint32_t> left{0};
    Member::Call call = nullptr;
    const void* context = nullptr;
    std::atomic<int> processor{kNowhere};  // of the task, when it last shared parts
  };

  // Where a thread sleeps until it is called; under mutex_.
  struct Bed {
    std::condition_variable wake;
    bool called = false;
    int processor = kNowhere;
  };

  void loop(Member& member);
  [[nodiscard]] Task next(Member& member);
  void help(const Member& member) noexcept;
  bool work_on(Board& board, const Member& member) noexcept;  // one part; false: there is none
  [[nodiscard]] int room() const noexcept;                    // for so many more helpers
  // The next two under mutex_.
  void sleep(const Member& member, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Bed* call_one(int taken);  // who is to be notified

  CrewOptions options_;
  std::vector<Member> members_;
  std::unique_ptr<Board[]> boards_;
  std::unique_ptr<Bed[]> beds_;
  std::atomic<size_t> queued_{0};
  std::atomic<int> running_{0}, helping_{0}, asleep_{0};
  std::mutex mutex_;
  std::deque<Task> queue_;     // under mutex_, like the next two
  std::vector<int> sleepers_;  // the one that fell asleep last at the end
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace exeunt
