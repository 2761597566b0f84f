// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// About the time between two rounds of one text; sleeping and waking up cost several times that.
constexpr std::chrono::microseconds kSpin{20};
// Longer than a round on one thread, unless it is long enough to be split for sleeping workers (parallel_product.h).
constexpr std::chrono::milliseconds kHelperTimeout{10};

void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // a short pause; `yield` does nothing on most cores
#endif
}

// Spins until done() or a time-out; returns whether it is done.
template <class Done>
bool spin_until(const Done& done) noexcept {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      cpu_relax();
    }
    if (std::chrono::steady_clock::now() - start > kSpin) return done();
  }
}

// The processor that this thread is on, below zero where the system does not say.
int this_processor() noexcept {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// Moves this thread to any other of its processors. Where none is idle, the system itself leaves threads where they
// were for a long time, also two on one processor.
void leave_processor() noexcept {
#if defined(__linux__)
  cpu_set_t all;
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof(all), &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(static_cast<unsigned>(here), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return;
  (void)sched_setaffinity(0, sizeof(all), &all);
#endif
}

constexpr uint64_t kRound = uint64_t{1} << 32;
constexpr uint64_t parts_of(uint64_t ticket) noexcept {
  return (ticket >> 16) & 0xffffU;
}
constexpr uint64_t next_of(uint64_t ticket) noexcept {
  return ticket & 0xffffU;
}
constexpr bool open(uint64_t ticket) noexcept {
  return next_of(ticket) < parts_of(ticket);
}

}  // namespace

WorkerPool::WorkerPool(const WorkerPoolOptions& options) : options_(options) {
  check(options.threads >= 1, "a pool has at least one thread");
  options_.processors = std::min(options.processors, options.threads);
  const auto count = static_cast<size_t>(options.threads);
  shared_ = std::make_unique<SharedWork[]>(count);
  parkers_ = std::make_unique<Parker[]>(count);
  sleepers_.reserve(count);
  workers_.resize(count);
  threads_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    workers_[i].pool_ = this;
    workers_[i].index_ = static_cast<int>(i);
  }
  for (Worker& worker : workers_) threads_.emplace_back([this, &worker] { loop(worker); });
}

WorkerPool::~WorkerPool() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    while (Parker* parker = unpark_one(kNoProcessor)) parker->wake.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::push(Task task) {
  Parker* parker = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(task));
    queued_.fetch_add(1);  // a spinning helper sees this and takes it
    parker = unpark_one(kNoProcessor);
  }
  if (parker != nullptr) parker->wake.notify_one();
}

int WorkerPool::free_processors() const noexcept {
  return options_.help ? options_.processors - running_.load() - helping_.load() : 0;
}

// The worker that fell asleep last, whose caches are warmest, of those that slept on another processor than `taken`:
// where no processor is idle, the system lets a thread run where it ran before. Null: none sleeps.
WorkerPool::Parker* WorkerPool::unpark_one(int taken) {
  if (sleepers_.empty()) return nullptr;
  auto chosen = sleepers_.end() - 1;
  for (auto at = sleepers_.end(); at != sleepers_.begin();) {
    if (parkers_[static_cast<size_t>(*--at)].processor == taken) continue;
    chosen = at;
    break;
  }
  Parker& parker = parkers_[static_cast<size_t>(*chosen)];
  sleepers_.erase(chosen);
  asleep_.fetch_sub(1);
  parker.notified = true;
  return &parker;
}

void WorkerPool::sleep(const Worker& worker, std::unique_lock<std::mutex>& lock) {
  Parker& parker = parkers_[static_cast<size_t>(worker.index_)];
  parker.notified = false;
  parker.processor = this_processor();
  sleepers_.push_back(worker.index_);
  asleep_.fetch_add(1);
  parker.wake.wait(lock, [&] { return parker.notified; });
}

void WorkerPool::loop(Worker& worker) {
  while (Task task = next(worker)) {
    task(worker);
    shared_[static_cast<size_t>(worker.index_)].processor.store(kNoProcessor, std::memory_order_relaxed);
    running_.fetch_sub(1);
  }
}

// The next task, after helping others; none when the pool stops.
WorkerPool::Task WorkerPool::next(Worker& worker) {
  std::unique_lock lock(mutex_);
  bool notified = true;  // help first: this thread is awake, and others may still run
  for (;;) {
    if (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      queued_.fetch_sub(1);
      running_.fetch_add(1);
      return task;
    }
    if (closing_) return {};
    if (notified && free_processors() > 0 && running_.load() > 0) {
      notified = false;
      helping_.fetch_add(1);
      lock.unlock();
      help(worker);
      helping_.fetch_sub(1);
      lock.lock();
      continue;
    }
    sleep(worker, lock);
    notified = true;
  }
}

// Works on other threads' parts until there is a task to take, or nothing to do for a while.
void WorkerPool::help(const Worker& worker) noexcept {
  const auto count = workers_.size();
  const auto other = [&](size_t i) -> SharedWork& { return shared_[(static_cast<size_t>(worker.index_) + i) % count]; };
  const auto one_round = [&] {
    bool worked = false;
    for (size_t i = 1; i < count; ++i) {
      while (work_on(other(i), worker)) worked = true;
    }
    return worked;
  };
  const auto shares_processor = [&] {
    const int here = this_processor();
    for (size_t i = 1; i < count && here >= 0; ++i) {
      if (other(i).processor.load(std::memory_order_relaxed) == here) return true;
    }
    return false;
  };
  const auto task_waiting = [&] { return queued_.load(std::memory_order_relaxed) > 0; };
  // Short work is split only for the threads that are awake when it begins. So a helper stays while a task runs, past
  // the longest round that was not split for it, and yields its processor between checks. On the processor of a task
  // it would only slow the task down, so it moves once.
  auto worked = std::chrono::steady_clock::now();
  bool moved = false;
  while (!task_waiting() && running_.load(std::memory_order_relaxed) > 0) {
    const bool found = spin_until([&] { return task_waiting() || one_round(); });
    const auto now = std::chrono::steady_clock::now();
    if (found) {
      worked = now;
    } else if (now - worked > kHelperTimeout) {
      return;
    } else if (!moved && shares_processor()) {
      leave_processor();
      moved = true;
    } else {
      std::this_thread::yield();
    }
  }
}

bool WorkerPool::work_on(SharedWork& work, const Worker& worker) noexcept {
  uint64_t ticket = work.ticket.load(std::memory_order_relaxed);
  do {
    if (!open(ticket)) return false;
  } while (!work.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire));
  work.call(work.context, static_cast<int>(next_of(ticket)), worker.index_);
  if (work.left.fetch_sub(1, std::memory_order_acq_rel) == 1) work.left.notify_one();
  return true;
}

int WorkerPool::Worker::workers() const noexcept {
  const int running = std::max(1, pool_->running_.load(std::memory_order_relaxed));
  const int helping = pool_->helping_.load(std::memory_order_relaxed);
  return 1 + (helping + running - 1) / running;  // helpers are spread over the running tasks
}

int WorkerPool::Worker::max_workers() const noexcept {
  const int all = pool_->options_.help ? pool_->options_.processors : 1;
  return std::max(workers(), all / std::max(1, pool_->running_.load(std::memory_order_relaxed)));
}

void WorkerPool::Worker::wake_helpers() const noexcept {
  if (pool_->asleep_.load(std::memory_order_relaxed) == 0 || pool_->free_processors() <= 0) return;
  const int here = this_processor();
  const std::scoped_lock lock(pool_->mutex_);
  for (int wanted = pool_->free_processors(); wanted > 0; --wanted) {
    Parker* parker = pool_->unpark_one(here);
    if (parker == nullptr) return;
    parker->wake.notify_one();
  }
}

void WorkerPool::Worker::run_parts(int parts, Call call, const void* context) noexcept {
  SharedWork& work = pool_->shared_[static_cast<size_t>(index_)];
  work.call = call;
  work.context = context;
  work.processor.store(this_processor(), std::memory_order_relaxed);
  work.left.store(static_cast<uint32_t>(parts), std::memory_order_relaxed);
  const uint64_t round = (work.ticket.load(std::memory_order_relaxed) & ~(kRound - 1)) + kRound;
  work.ticket.store(round | static_cast<uint64_t>(parts) << 16, std::memory_order_release);
  while (pool_->work_on(work, *this)) {
  }
  const auto done = [&] { return work.left.load(std::memory_order_acquire) == 0; };
  if (spin_until(done)) return;
  for (uint32_t left = work.left.load(std::memory_order_acquire); left != 0;
       left = work.left.load(std::memory_order_acquire)) {
    work.left.wait(left, std::memory_order_acquire);
  }
}

}  // namespace exeunt
