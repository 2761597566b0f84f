// SPDX-License-Identifier: Apache-2.0
// The GPU's backend: threads of the processor tokenise texts that wait (token_front.h); a thread for each lane takes as
// many as fit into a batch, starts it, and gives out its answers. The device decides where texts leave; the host walks
// through the same logits with the same code, so a difference between them would be noticed at every text.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/parallel.h"
#include "exeunt/engine/backend.h"
#include "exeunt/engine/cpu/kernels.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/cuda/lane.h"
#include "exeunt/engine/cuda/open_batch.h"
#include "exeunt/engine/token_front.h"

namespace exeunt {
namespace cuda {
namespace {

// Raised whenever these kernels compute other bits than before.
constexpr int kCudaNumerics = 3;
constexpr int kLanes = 2;
// Of a batch: so many that the largest GPUs are busy even in the last layers, which few texts reach.
constexpr int kDefaultRows = 65536;
constexpr int kRowsByLayer = 8192;  // of a batch whose rows are looked at

void check_model(const Checkpoint& checkpoint) {
  if (checkpoint.spec().has_plain_layers() && checkpoint.exits().pooler == PoolerShape{}) return;
  throw Error(Code::resources, "the CUDA engine runs BERT's layers and poolers, and this model has others",
              "use --device cpu");
}

// What a batch found for one text.
struct Found {
  const Results* batch = nullptr;
  int text = 0;
  int tokens = 0;
};

// The answer of a text that left: its exits looked at in order, as on the processor (cpu/text_run.cc).
Answer answer_of(const ExitLayout& exits, const Ask& ask, int stop, bool late, const Found& found) {
  const int left = found.batch->left(found.text);
  check(left >= 0 && left <= stop, "a text leaves the device at an exit of its own");
  ExitWalk walk(exits, ask);
  Answer out;
  out.tokens = found.tokens;
  out.layers_run = exits.sites[static_cast<size_t>(left)].after;
  for (int site = 0; site <= left; ++site) {
    if (!looks_at(ask, site, stop)) continue;
    const bool leaves = walk.look(
        {.site = site, .logits = found.batch->logits(found.text, site), .lte = found.batch->lte(found.text, site)},
        [&found] { return found.batch->ramp(found.text); });
    check((leaves || site == stop) == (site == left), "host and device decide alike");
    if (site == left) out.ended = late && !leaves ? Ended::deadline : ended_at(exits, ask, site, leaves);
  }
  walk.answer(out);
  return out;
}

// A text that waits: for its answer, for all its exits, or for its rows.
struct PassGroup {
  PassWants wants = {};
  Backend::PassDone done = {};
};
struct RowsGroup {
  int depth = 0;
  Engine::TakeRows take = {};
  Backend::RowsDone done = {};
};
struct Waiting {
  AnswerJob job = {};  // unless one of the next two is set
  std::shared_ptr<const PassGroup> pass = {};
  std::shared_ptr<const RowsGroup> rows = {};
  const Encoding* text = nullptr;  // of a pass or of rows
  size_t index = 0;
  int stop = 0;  // of an answer
  bool late = false;

  [[nodiscard]] const Encoding& encoding() const {
    if (text != nullptr) return *text;
    return job.source.borrowed != nullptr ? *job.source.borrowed : job.source.own;
  }
  [[nodiscard]] bool answers() const noexcept { return !pass && !rows; }
  // May leave early, so that its place in a batch can become another text's.
  [[nodiscard]] bool may_leave() const noexcept {
    return answers() && job.ask.policy != nullptr && job.ask.policy->bound.count > 0 &&
           job.ask.policy->bound.site[0] < stop;
  }
  // Whether both may run in one batch.
  [[nodiscard]] bool goes_with(const Waiting& other) const {
    return rows == other.rows && (rows || by_layer() == other.by_layer());
  }
  [[nodiscard]] bool by_layer() const noexcept { return rows || (pass && pass->wants.rows); }
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Checkpoint& checkpoint, const EngineOptions& options)
      : traits_(cuda_traits(options.device)), now_(options.now), gpu_(options.device.index) {
    check_model(checkpoint);
    use_gpu(gpu_);
    model_ = std::make_unique<DeviceModel>(checkpoint, options.precision.value_or(Precision::bf16), chip_of(gpu_),
                                           options.exceptions);
    const int rows = rows_that_fit(options.pack_rows > 0 ? options.pack_rows : kDefaultRows);
    for (int i = 0; i < kLanes; ++i) lanes_.push_back(std::make_unique<Lane>(*model_, rows));
    if (model_->mixes_depths()) open_ = std::make_unique<OpenBatch>(*model_, rows + rows / 2);
    open_runs_ = open_ != nullptr;
    tokenizers_ = thread_count(options.threads);
    try {
      if (open_) threads_.emplace_back([this] { run_open(); });
      for (const std::unique_ptr<Lane>& lane : lanes_) threads_.emplace_back([this, &lane] { run(*lane); });
      front_.emplace(model_->spec, tokenizers_, [this](std::span<AnswerJob> jobs) { get_in_line(jobs); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~CudaBackend() override { stop(); }

  void submit(std::span<AnswerJob> jobs) override {
    const auto raw =
        std::stable_partition(jobs.begin(), jobs.end(), [](const AnswerJob& job) { return !job.source.make; });
    if (raw != jobs.begin()) get_in_line({jobs.begin(), raw});
    if (raw != jobs.end()) front_->give({raw, jobs.end()});
  }

  void full_passes(std::span<const Encoding> texts, PassWants wants, const PassDone& done) override {
    const auto group = std::make_shared<const PassGroup>(PassGroup{wants, done});
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < texts.size(); ++i) {
      Waiting one;
      one.pass = group;
      one.text = &texts[i];
      one.index = i;
      ready_.push_back(std::move(one));
    }
    changed_.notify_all();
  }

  void layer_rows(std::span<const Encoding> texts, int depth, const Engine::TakeRows& take,
                  const RowsDone& done) override {
    const auto group = std::make_shared<const RowsGroup>(RowsGroup{depth, take, done});
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < texts.size(); ++i) {
      Waiting one;
      one.rows = group;
      one.text = &texts[i];
      one.index = i;
      ready_.push_back(std::move(one));
    }
    changed_.notify_all();
  }

  [[nodiscard]] const ModelSpec& spec() const noexcept override { return model_->spec; }
  [[nodiscard]] const ExitLayout& exits() const noexcept override { return model_->exits; }
  [[nodiscard]] Precision precision() const noexcept override { return model_->precision; }
  [[nodiscard]] const EngineTraits& traits() const noexcept override { return traits_; }
  [[nodiscard]] const Kernels& kernels() const noexcept override { return choose_kernels(); }
  [[nodiscard]] int threads() const noexcept override { return tokenizers_; }
  [[nodiscard]] int pack_rows() const noexcept override { return lanes_.front()->most().rows; }
  [[nodiscard]] size_t waiting() const noexcept override {
    const std::scoped_lock lock(mutex_);
    return front_->waiting() + ready_.size() + joining_.size();
  }
  [[nodiscard]] size_t weight_bytes() const noexcept override { return model_->bytes(); }

 private:
  using Batch = std::vector<Waiting>;
  using BySlot = std::vector<std::unique_ptr<Waiting>>;  // of the open batch; null: free

  // Half of what is free at most, for all lanes together.
  [[nodiscard]] int rows_that_fit(int wanted) const {
    const size_t hidden = static_cast<size_t>(model_->spec.hidden), inner = static_cast<size_t>(model_->spec.inner);
    const size_t row = (4 * hidden + std::max(4 * hidden, inner)) * bytes_of(model_->number) + inner + 64;
    const size_t fit = free_bytes() / 2 / kLanes / row;
    return static_cast<int>(std::min<size_t>(static_cast<size_t>(wanted), std::max<size_t>(fit, 1)));
  }

  void stop() noexcept {
    if (front_) front_->stop();
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    for (std::deque<Waiting>* queue : {&ready_, &joining_}) {
      for (Waiting& one : *queue) cancel(one);
      queue->clear();
    }
  }

  static void cancel(Waiting& one) {
    if (one.answers()) return one.job.done(Answer{.ended = Ended::cancelled});
    fail(one, std::make_exception_ptr(Error(Code::resources, "the engine is closing")));
  }
  static void fail(Waiting& one, const std::exception_ptr& why) {
    if (one.pass) return one.pass->done(one.index, {}, why);
    if (one.rows) return one.rows->done(one.index, {}, why);
    one.job.done(failed_answer(why));
  }

  // Texts with their tokens.
  void get_in_line(std::span<AnswerJob> jobs) {
    const std::scoped_lock lock(mutex_);
    for (AnswerJob& job : jobs) {
      Waiting one;
      one.stop = stop_site(exits(), job.ask);
      one.job = std::move(job);
      queue_of(one).push_back(std::move(one));
    }
    changed_.notify_all();
  }

  // Texts that may leave early wait for the open batch, if there is one.
  [[nodiscard]] std::deque<Waiting>& queue_of(const Waiting& one) {
    return open_runs_ && one.may_leave() ? joining_ : ready_;
  }
  // A text that is alone is answered sooner by a lane.
  [[nodiscard]] bool joiner_is_alone() const { return joining_.size() == 1 && open_texts_ == 0; }

  // Steps of the open batch, as long as it has texts.
  void run_open() {
    BySlot texts;
    while (true) {
      std::exception_ptr failure;
      try {
        use_gpu(gpu_);
        if (!join_waiting(texts)) return;
        if (open_->texts() == 0) continue;
        const Clock::time_point began = now_();
        const int rows = open_->rows();
        open_->step();
        for (const int slot : open_->finished()) {
          const std::unique_ptr<Waiting> one = std::move(texts[static_cast<size_t>(slot)]);
          deliver(*open_, *one, slot, 0);
        }
        // While one step is waited for, the next is under way: so long takes each.
        row_seconds_.store(std::chrono::duration<double>(now_() - began).count() / rows, std::memory_order_relaxed);
        continue;
      } catch (...) {
        failure = std::current_exception();
      }
      {
        const std::scoped_lock lock(mutex_);
        broken_ = failure;
        open_runs_ = false;
        for (Waiting& one : joining_) ready_.push_back(std::move(one));
        joining_.clear();
        changed_.notify_all();
      }
      for (const std::unique_ptr<Waiting>& one : texts)
        if (one) fail(*one, failure);
      return;
    }
  }

  // Lets texts that wait join the open batch, in their order; waits for some if it is empty. False: the engine closes,
  // and nothing is under way.
  [[nodiscard]] bool join_waiting(BySlot& texts) {
    std::unique_lock lock(mutex_);
    open_texts_ = open_->texts();
    if (open_texts_ == 0) {
      if (joiner_is_alone()) changed_.notify_all();  // a lane may take it now
      changed_.wait(lock,
                    [&] { return closing_ || (!joining_.empty() && (!joiner_is_alone() || busy_lanes_ == kLanes)); });
    }
    if (closing_) return open_texts_ > 0;
    while (!joining_.empty()) {
      Waiting& next = joining_.front();
      if (broken_ || over(next)) {
        Waiting gone = std::move(next);
        joining_.pop_front();
        const std::exception_ptr why = broken_;
        lock.unlock();
        why ? fail(gone, why) : end(gone);
        lock.lock();
        continue;
      }
      const auto tokens = static_cast<int>(next.encoding().ids.size());
      auto one = std::make_unique<Waiting>(std::move(next));  // does not move while the batch knows its address
      const std::optional<int> slot = open_->add(one->encoding(), wish_of(*one, open_->rows() + tokens));
      if (!slot) {
        next = std::move(*one);
        break;
      }
      if (texts.size() <= static_cast<size_t>(*slot)) texts.resize(static_cast<size_t>(*slot) + 1);
      texts[static_cast<size_t>(*slot)] = std::move(one);
      joining_.pop_front();
      ++open_texts_;
    }
    return true;
  }

  void run(Lane& lane) {
    Batch batch;
    while (true) {
      std::exception_ptr failure;
      try {
        use_gpu(gpu_);
        if (!take(lane, batch)) return;
        if (batch.empty()) continue;
        const Clock::time_point began = now_();
        if (batch.front().by_layer()) {
          run_by_layer(lane, batch);
        } else {
          lane.start();
          lane.wait();
        }
        const double seconds = std::chrono::duration<double>(now_() - began).count();
        row_seconds_.store(seconds / lane.rows() / spec().layers, std::memory_order_relaxed);
        if (!batch.front().by_layer()) {
          for (size_t i = 0; i < batch.size(); ++i)
            deliver(lane, batch[i], static_cast<int>(i), seconds / static_cast<double>(batch.size()));
        }
      } catch (...) {
        failure = std::current_exception();
      }
      if (!failure) continue;
      // A GPU does not recover within a process: what follows fails with the same words.
      {
        const std::scoped_lock lock(mutex_);
        broken_ = failure;
      }
      for (Waiting& one : batch) {
        if (one.index != kDelivered) fail(one, failure);
      }
    }
  }

  // Fills a lane with texts that wait, in their order; `batch` is what it had before. False: the engine closes.
  [[nodiscard]] bool take(Lane& lane, Batch& batch) {
    lane.clear();
    const bool was_busy = !batch.empty();
    batch.clear();
    std::unique_lock lock(mutex_);
    if (was_busy) --busy_lanes_;
    changed_.wait(lock, [&] { return closing_ || !ready_.empty() || joiner_is_alone(); });
    if (closing_) return false;
    if (ready_.empty()) {
      ready_.push_back(std::move(joining_.front()));
      joining_.pop_front();
    }
    // No element moves: the lane keeps addresses.
    batch.reserve(std::min(ready_.size(), static_cast<size_t>(lane.most().texts)));
    while (!ready_.empty() && batch.size() < batch.capacity()) {
      Waiting& next = ready_.front();
      if (!batch.empty() && (!batch.front().goes_with(next) || alone(next))) break;
      const bool by_layer = next.by_layer();
      const auto tokens = static_cast<int>(next.encoding().ids.size());
      if (by_layer && !batch.empty() && lane.rows() + tokens > kRowsByLayer) break;
      if (std::exception_ptr why = broken_; why || over(next)) {
        Waiting gone = std::move(next);
        ready_.pop_front();
        lock.unlock();
        why ? fail(gone, why) : end(gone);
        lock.lock();
        continue;
      }
      batch.push_back(std::move(next));
      if (!lane.add(batch.back().encoding(), wish_of(batch.back(), lane.rows() + tokens))) {
        ready_.front() = std::move(batch.back());
        batch.pop_back();
        break;
      }
      ready_.pop_front();
      if (alone(batch.back())) break;
    }
    if (!batch.empty()) {
      ++busy_lanes_;
      if (!joining_.empty()) changed_.notify_all();  // no lane may be left for it
    }
    return true;
  }

  [[nodiscard]] static bool alone(const Waiting& one) { return one.pass && one.pass->wants.alone; }

  // Whether a text ends before it runs.
  [[nodiscard]] bool over(const Waiting& one) const {
    if (!one.answers()) return false;
    return one.job.cancelled->load(std::memory_order_relaxed) ||
           (one.job.ask.deadline != kNoDeadline && now_() >= one.job.ask.deadline);
  }
  static void end(Waiting& one) {
    const bool cancelled = one.job.cancelled->load(std::memory_order_relaxed);
    one.job.done(Answer{.ended = cancelled ? Ended::cancelled : Ended::deadline});
  }

  // What a text wants of the device, in a batch of `rows` rows. The host does not look in between, so a text with a
  // deadline gets the deepest exit that such a batch reaches in time; the first at the least.
  [[nodiscard]] Wish wish_of(Waiting& one, int rows) const {
    const int last = static_cast<int>(exits().sites.size()) - 1;
    if (one.rows) return {.stop = last};
    if (one.pass) return {.stop = last, .every = true};
    const Ask& ask = one.job.ask;
    if (ask.deadline != kNoDeadline) {
      const double left = std::chrono::duration<double>(ask.deadline - now_()).count();
      const double layer = row_seconds_.load(std::memory_order_relaxed) * rows;
      while (one.stop > 0 && layer * exits().sites[static_cast<size_t>(one.stop)].after > left) {
        --one.stop;
        one.late = true;
      }
    }
    return {
        .policy = ask.policy ? &ask.policy->bound : nullptr, .stop = one.stop, .every = ask.deadline != kNoDeadline};
  }

  void deliver(const Results& batch, Waiting& one, int text, double seconds) {
    const auto tokens = static_cast<int>(one.encoding().ids.size());
    if (one.pass) {
      Engine::FullPass pass = exits_of(batch, text);
      pass.processor_seconds = seconds;
      one.pass->done(std::exchange(one.index, kDelivered), std::move(pass), {});
      return;
    }
    Answer answer;
    try {
      answer = answer_of(exits(), one.job.ask, one.stop, one.late, {.batch = &batch, .text = text, .tokens = tokens});
    } catch (...) {
      answer = failed_answer(std::current_exception());
    }
    one.index = kDelivered;
    one.job.done(std::move(answer));
  }

  [[nodiscard]] Engine::FullPass exits_of(const Results& batch, int text) const {
    Engine::FullPass pass;
    for (int site = 0; site < static_cast<int>(exits().sites.size()); ++site) {
      const float* logits = batch.logits(text, site);
      pass.logits.insert(pass.logits.end(), logits, logits + exits().outputs);
      if (exits().lte) pass.lte.push_back(batch.lte(text, site));
    }
    if (exits().last_ramp) pass.ramp.assign(batch.ramp(text), batch.ramp(text) + exits().outputs);
    return pass;
  }

  // A batch whose rows are looked at after every layer: row 0 of a pass, or all.
  void run_by_layer(Lane& lane, Batch& batch) {
    const auto hidden = static_cast<size_t>(spec().hidden);
    const auto rows = static_cast<size_t>(lane.rows());
    const DeviceMemory wide = device_memory(rows * hidden * sizeof(float), "rows of a layer");
    const PinnedMemory host = pinned_memory(rows * hidden * sizeof(float), "rows of a layer");
    const auto* values = reinterpret_cast<const float*>(host.data());
    std::vector<std::vector<float>> first(batch.size());
    const bool passes = batch.front().pass != nullptr;
    const int depth = passes ? spec().layers : batch.front().rows->depth;
    const Clock::time_point began = now_();
    lane.run_by_layer(depth, [&](int layer, const void* from, const TextList&) {
      if (!passes && (layer == 0 || layer > depth)) return;
      widen(model_->number, from, reinterpret_cast<float*>(wide.data()), rows * hidden, lane.stream());
      copy_to_host(host.data(), wide.data(), rows * hidden * sizeof(float), lane.stream());
      lane.wait();
      size_t begin = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        const size_t tokens = batch[i].encoding().ids.size();
        const std::span<const float> here(values + begin * hidden, tokens * hidden);
        if (passes) {
          first[i].insert(first[i].end(), here.begin(), here.begin() + static_cast<ptrdiff_t>(hidden));
        } else {
          batch[i].rows->take(batch[i].index, layer, here);
        }
        begin += tokens;
      }
    });
    lane.wait();
    const double seconds = std::chrono::duration<double>(now_() - began).count() / static_cast<double>(batch.size());
    const int last = static_cast<int>(exits().sites.size()) - 1;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto text = static_cast<int>(i);
      const size_t index = std::exchange(batch[i].index, kDelivered);
      if (passes) {
        Engine::FullPass pass = exits_of(lane, text);
        pass.row_0 = std::move(first[i]);
        pass.processor_seconds = seconds;
        batch[i].pass->done(index, std::move(pass), {});
      } else {
        std::span<const float> logits;
        if (depth == spec().layers) logits = {lane.logits(text, last), static_cast<size_t>(exits().outputs)};
        batch[i].rows->done(index, logits, {});
      }
    }
  }

  static constexpr size_t kDelivered = static_cast<size_t>(-1);

  EngineTraits traits_;
  Clock::time_point (*now_)();
  int gpu_, tokenizers_ = 0;
  std::unique_ptr<DeviceModel> model_;
  std::vector<std::unique_ptr<Lane>> lanes_ = {};
  std::unique_ptr<OpenBatch> open_ = {};  // null: the model has none
  std::atomic<double> row_seconds_{0};    // that a row took in a layer, in the last batch; 0: not yet known
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex, like all up to `closing_`: for a lane, and for the open batch.
  std::deque<Waiting> ready_ = {}, joining_ = {};
  int busy_lanes_ = 0, open_texts_ = 0;
  bool open_runs_ = false;
  std::exception_ptr broken_ = {};
  bool closing_ = false;
  std::vector<std::thread> threads_ = {};
  std::optional<TokenFront> front_ = {};
};

}  // namespace
}  // namespace cuda

EngineTraits cuda_traits(const Device& device) {
  const cuda::Chip chip = cuda::chip_of(device.index);
  return {.name = fmt::format("cuda/sm_{}{}", chip.major, chip.minor),
          .numerics = cuda::kCudaNumerics,
          .bf16 = true,
          .int8 = chip.hopper()};
}

std::unique_ptr<Backend> make_cuda_backend(const Checkpoint& checkpoint, const EngineOptions& options) {
  return std::make_unique<cuda::CudaBackend>(checkpoint, options);
}

}  // namespace exeunt
