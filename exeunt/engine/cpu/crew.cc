// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/crew.h"

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
// Longer than a round on one thread, unless it is long enough to be cut for those who may still come (share.h).
constexpr std::chrono::milliseconds kPatience{10};

void relax() noexcept {
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
      relax();
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

Crew::Crew(const CrewOptions& options) : options_(options) {
  check(options.threads >= 1, "a crew has at least one thread");
  options_.processors = std::min(options.processors, options.threads);
  const auto count = static_cast<size_t>(options.threads);
  boards_ = std::make_unique<Board[]>(count);
  beds_ = std::make_unique<Bed[]>(count);
  sleepers_.reserve(count);
  members_.resize(count);
  threads_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    members_[i].crew_ = this;
    members_[i].index_ = static_cast<int>(i);
  }
  for (Member& member : members_) threads_.emplace_back([this, &member] { loop(member); });
}

Crew::~Crew() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    while (Bed* bed = call_one(kNowhere)) bed->wake.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Crew::push(Task task) {
  Bed* bed = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(task));
    queued_.fetch_add(1);  // a spinning helper sees this and takes it
    bed = call_one(kNowhere);
  }
  if (bed != nullptr) bed->wake.notify_one();
}

int Crew::room() const noexcept {
  return options_.help ? options_.processors - running_.load() - helping_.load() : 0;
}

// The thread that fell asleep last, whose caches are warmest, of those that slept elsewhere than on `taken`: where no
// processor is idle, the system lets a thread run where it ran before. Null: nobody sleeps.
Crew::Bed* Crew::call_one(int taken) {
  if (sleepers_.empty()) return nullptr;
  auto chosen = sleepers_.end() - 1;
  for (auto at = sleepers_.end(); at != sleepers_.begin();) {
    if (beds_[static_cast<size_t>(*--at)].processor == taken) continue;
    chosen = at;
    break;
  }
  Bed& bed = beds_[static_cast<size_t>(*chosen)];
  sleepers_.erase(chosen);
  asleep_.fetch_sub(1);
  bed.called = true;
  return &bed;
}

void Crew::sleep(const Member& member, std::unique_lock<std::mutex>& lock) {
  Bed& bed = beds_[static_cast<size_t>(member.index_)];
  bed.called = false;
  bed.processor = this_processor();
  sleepers_.push_back(member.index_);
  asleep_.fetch_add(1);
  bed.wake.wait(lock, [&] { return bed.called; });
}

void Crew::loop(Member& member) {
  while (Task task = next(member)) {
    task(member);
    boards_[static_cast<size_t>(member.index_)].processor.store(kNowhere, std::memory_order_relaxed);
    running_.fetch_sub(1);
  }
}

// The next task, after helping others; none when the crew stops.
Crew::Task Crew::next(Member& member) {
  std::unique_lock lock(mutex_);
  bool called = true;  // help first: this thread is awake, and others may still run
  for (;;) {
    if (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      queued_.fetch_sub(1);
      running_.fetch_add(1);
      return task;
    }
    if (closing_) return {};
    if (called && room() > 0 && running_.load() > 0) {
      called = false;
      helping_.fetch_add(1);
      lock.unlock();
      help(member);
      helping_.fetch_sub(1);
      lock.lock();
      continue;
    }
    sleep(member, lock);
    called = true;
  }
}

// Works on other threads' parts until there is a task to take, or nothing to do for a while.
void Crew::help(const Member& member) noexcept {
  const auto count = members_.size();
  const auto other = [&](size_t i) -> Board& { return boards_[(static_cast<size_t>(member.index_) + i) % count]; };
  const auto one_round = [&] {
    bool worked = false;
    for (size_t i = 1; i < count; ++i) {
      while (work_on(other(i), member)) worked = true;
    }
    return worked;
  };
  const auto in_the_way = [&] {
    const int here = this_processor();
    for (size_t i = 1; i < count && here >= 0; ++i) {
      if (other(i).processor.load(std::memory_order_relaxed) == here) return true;
    }
    return false;
  };
  const auto called_away = [&] { return queued_.load(std::memory_order_relaxed) > 0; };
  // Short work is cut only for the threads that are present when it begins. So a helper stays while a task runs, past
  // the longest round that was not cut for it, and yields its processor between checks. On the processor of a task it
  // would only be in the way, so it moves once.
  auto worked = std::chrono::steady_clock::now();
  bool moved = false;
  while (!called_away() && running_.load(std::memory_order_relaxed) > 0) {
    const bool found = spin_until([&] { return called_away() || one_round(); });
    const auto now = std::chrono::steady_clock::now();
    if (found) {
      worked = now;
    } else if (now - worked > kPatience) {
      return;
    } else if (!moved && in_the_way()) {
      leave_processor();
      moved = true;
    } else {
      std::this_thread::yield();
    }
  }
}

bool Crew::work_on(Board& board, const Member& member) noexcept {
  uint64_t ticket = board.ticket.load(std::memory_order_relaxed);
  do {
    if (!open(ticket)) return false;
  } while (!board.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire));
  board.call(board.context, static_cast<int>(next_of(ticket)), member.index_);
  if (board.left.fetch_sub(1, std::memory_order_acq_rel) == 1) board.left.notify_one();
  return true;
}

int Crew::Member::hands() const noexcept {
  const int running = std::max(1, crew_->running_.load(std::memory_order_relaxed));
  const int helping = crew_->helping_.load(std::memory_order_relaxed);
  return 1 + (helping + running - 1) / running;  // helpers are spread over the running tasks
}

int Crew::Member::most_hands() const noexcept {
  const int all = crew_->options_.help ? crew_->options_.processors : 1;
  return std::max(hands(), all / std::max(1, crew_->running_.load(std::memory_order_relaxed)));
}

void Crew::Member::summon() const noexcept {
  if (crew_->asleep_.load(std::memory_order_relaxed) == 0 || crew_->room() <= 0) return;
  const int here = this_processor();
  const std::scoped_lock lock(crew_->mutex_);
  for (int wanted = crew_->room(); wanted > 0; --wanted) {
    Bed* bed = crew_->call_one(here);
    if (bed == nullptr) return;
    bed->wake.notify_one();
  }
}

void Crew::Member::share_out(int parts, Call call, const void* context) noexcept {
  Board& board = crew_->boards_[static_cast<size_t>(index_)];
  board.call = call;
  board.context = context;
  board.processor.store(this_processor(), std::memory_order_relaxed);
  board.left.store(static_cast<uint32_t>(parts), std::memory_order_relaxed);
  const uint64_t round = (board.ticket.load(std::memory_order_relaxed) & ~(kRound - 1)) + kRound;
  board.ticket.store(round | static_cast<uint64_t>(parts) << 16, std::memory_order_release);
  while (crew_->work_on(board, *this)) {
  }
  const auto done = [&] { return board.left.load(std::memory_order_acquire) == 0; };
  if (spin_until(done)) return;
  for (uint32_t left = board.left.load(std::memory_order_acquire); left != 0;
       left = board.left.load(std::memory_order_acquire)) {
    board.left.wait(left, std::memory_order_acquire);
  }
}

}  // namespace exeunt
