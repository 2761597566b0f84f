// SPDX-License-Identifier: Apache-2.0
// The GPU's backend: threads of the processor tokenise texts that wait (tokenizer_pool.h); a thread for each batch
// runner takes as many as fit into a batch, starts it, and delivers its answers. The device decides where texts leave;
// the host evaluates the same logits with the same code, and fails the text if they differ.
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
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cuda/batch_runner.h"
#include "exeunt/engine/cuda/continuous_batch.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/ngram_exit.h"
#include "exeunt/engine/tokenizer_pool.h"

namespace exeunt {
namespace cuda {
namespace {

// Raised whenever these kernels compute other bits than before.
constexpr int kCudaNumerics = 3;
constexpr int kRunners = 2;
// Of a batch: so many that the largest GPUs are busy even in the last layers, which few texts reach.
constexpr int kDefaultRows = 65536;
constexpr int kRowsByLayer = 8192;  // of a batch whose rows are read

// A text that waits for its answer or for a pass.
struct Waiting {
  AnswerJob job = {};  // without a pass
  std::shared_ptr<const PassRequest> pass = {};
  const Encoding* text = nullptr;  // of a pass, like the next
  size_t index = 0;
  int stop = 0;  // of an answer, like the next three
  bool late = false;
  std::vector<float> exit_0 = {};  // its logits, where the text evaluates it
  std::vector<float> state = {};   // of the policy after it

  [[nodiscard]] const Encoding& encoding() const {
    if (text != nullptr) return *text;
    return job.source.borrowed != nullptr ? *job.source.borrowed : job.source.own;
  }
  [[nodiscard]] bool answers() const noexcept { return !pass; }
  // May leave early from `first` on, so that its place in a batch can become another text's.
  [[nodiscard]] bool may_leave(size_t first) const noexcept {
    if (!answers() || job.ask.policy == nullptr) return false;
    const Policy& policy = job.ask.policy->bound;
    return std::any_of(policy.site, policy.site + policy.count,
                       [&](int site) { return site >= static_cast<int>(first) && site < stop; });
  }
  // Whether both may run in one batch.
  [[nodiscard]] bool goes_with(const Waiting& other) const {
    return takes_rows() || other.takes_rows() ? pass == other.pass : by_layer() == other.by_layer();
  }
  [[nodiscard]] bool takes_rows() const noexcept { return pass && pass->take; }
  [[nodiscard]] bool by_layer() const noexcept { return pass && (pass->take || pass->row_0); }
};

// The answer of a text that left: its exits evaluated in order, as on the CPU (cpu/text_run.cc). Without results it
// left at exit 0.
Answer answer_of(const ExitLayout& exits, const Waiting& one, const BatchResults* results, int text) {
  const Ask& ask = one.job.ask;
  const int left = results == nullptr ? 0 : results->exit_site[text];
  check(left >= 0 && left <= one.stop, "a text leaves the device at an exit of its own");
  ExitEvaluator evaluator(exits, ask);
  Answer out;
  out.layers_run = exits.sites[static_cast<size_t>(left)].after;
  out.tokens = static_cast<int>(one.encoding().ids.size());
  for (int site = 0; site <= left; ++site) {
    if (!evaluates_exit(ask, site, one.stop)) continue;
    ExitEvaluator::Exit exit{.site = site};
    if (site == 0 && !one.exit_0.empty()) {
      exit.logits = one.exit_0.data();
    } else {
      exit.logits = results->logits_of(text, site);
      exit.lte = results->lte_of(text, site);
    }
    const bool leaves = evaluator.evaluate(exit, [&] { return results->ramp_of(text); });
    check((leaves || site == one.stop) == (site == left), "host and device decide alike");
    if (site == left)
      out.stop_reason = one.late && !leaves ? StopReason::deadline : stop_reason_at(exits, ask, site, leaves);
  }
  evaluator.answer(out);
  return out;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Checkpoint& checkpoint, const EngineOptions& options)
      : now_(options.now), gpu_(options.device.index) {
    use_gpu(gpu_);
    model_ = std::make_unique<DeviceModel>(checkpoint, options.precision.value_or(Precision::bf16), chip_of(gpu_),
                                           options.exceptions);
    if (model_->exits.ngrams) ngrams_.emplace(checkpoint);
    const int rows = rows_that_fit(options.pack_rows > 0 ? options.pack_rows : kDefaultRows);
    for (int i = 0; i < kRunners; ++i) runners_.push_back(std::make_unique<BatchRunner>(*model_, rows));
    if (model_->mixes_depths()) continuous_ = std::make_unique<ContinuousBatch>(*model_, rows + rows / 2);
    continuous_runs_ = continuous_ != nullptr;
    info_ = {.spec = model_->spec,
             .exits = model_->exits,
             .precision = model_->precision,
             .traits = cuda_traits(options.device),
             .kernels = &choose_kernels(),
             .threads = thread_count(options.threads),
             .pack_rows = runners_.front()->max_capacity().rows,
             .weight_bytes = model_->bytes()};
    try {
      if (continuous_) threads_.emplace_back([this] { run_continuous(); });
      for (const std::unique_ptr<BatchRunner>& runner : runners_)
        threads_.emplace_back([this, &runner] { run(*runner); });
      tokenizer_pool_.emplace(model_->spec, info_.threads, [this](std::span<AnswerJob> jobs) { enqueue_ready(jobs); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~CudaBackend() override { stop(); }

  void submit(std::span<AnswerJob> jobs) override {
    const auto raw =
        std::stable_partition(jobs.begin(), jobs.end(), [](const AnswerJob& job) { return !job.source.make; });
    if (raw != jobs.begin()) enqueue_ready({jobs.begin(), raw});
    if (raw != jobs.end()) tokenizer_pool_->submit({raw, jobs.end()});
  }

  void run_passes(std::span<const Encoding> texts, const std::shared_ptr<const PassRequest>& request) override {
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < texts.size(); ++i) {
      Waiting& one = ready_.emplace_back();
      one.pass = request;
      one.text = &texts[i];
      one.index = i;
    }
    changed_.notify_all();
  }

  [[nodiscard]] size_t waiting() const noexcept override {
    const std::scoped_lock lock(mutex_);
    return tokenizer_pool_->waiting() + ready_.size() + joining_.size();
  }

 private:
  using Batch = std::vector<Waiting>;
  using BySlot = std::vector<std::unique_ptr<Waiting>>;  // of the continuous batch; null: free

  // Half of what is free at most, for all runners together.
  [[nodiscard]] int rows_that_fit(int wanted) const {
    const size_t hidden = static_cast<size_t>(model_->spec.hidden), inner = static_cast<size_t>(model_->spec.inner);
    const size_t row = (4 * hidden + std::max(4 * hidden, inner)) * bytes_of(model_->number) + inner + 64;
    const size_t fit = free_bytes() / 2 / kRunners / row;
    return static_cast<int>(std::min<size_t>(static_cast<size_t>(wanted), std::max<size_t>(fit, 1)));
  }

  void stop() noexcept {
    if (tokenizer_pool_) tokenizer_pool_->stop();
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
    if (one.answers()) return one.job.done(Answer{.stop_reason = StopReason::cancelled});
    fail(one, std::make_exception_ptr(Error(Code::resources, "the engine is closing")));
  }
  static void fail(Waiting& one, const std::exception_ptr& why) {
    if (one.pass) return one.pass->done(one.index, {}, why);
    one.job.done(failed_answer(why));
  }

  // Texts with their tokens. Those that leave at exit 0 are answered here.
  void enqueue_ready(std::span<AnswerJob> jobs) {
    Batch staying;
    staying.reserve(jobs.size());
    for (AnswerJob& job : jobs) {
      Waiting one;
      one.stop = stop_site(exits(), job.ask);
      one.job = std::move(job);
      try {
        if (!leaves_at_exit_0(one)) {
          staying.push_back(std::move(one));
          continue;
        }
      } catch (...) {
        fail(one, std::current_exception());
        continue;
      }
      deliver(nullptr, one, 0, 0);
    }
    const std::scoped_lock lock(mutex_);
    for (Waiting& one : staying) queue_of(one).push_back(std::move(one));
    changed_.notify_all();
  }

  [[nodiscard]] bool leaves_at_exit_0(Waiting& one) const {
    const Ask& ask = one.job.ask;
    if (!ngrams_ || !evaluates_exit(ask, 0, one.stop)) return false;
    one.exit_0.resize(static_cast<size_t>(exits().outputs));
    ngrams_->run(one.encoding().ids, one.exit_0.data());
    if (one.stop == 0) return true;
    if (!ask.policy || ask.policy->bound.nth[0] < 0) return false;
    const Policy& policy = ask.policy->bound;
    one.state.resize(static_cast<size_t>(policy.state_floats));
    const Evidence evidence = compute_evidence(policy, policy.nth[0], {one.exit_0.data(), 0}, one.state.data());
    return step(policy, policy.nth[0], evidence, nullptr, one.state.data()) == Step::leave;
  }

  // Texts that may leave early wait for the continuous batch, if there is one.
  [[nodiscard]] std::deque<Waiting>& queue_of(const Waiting& one) {
    return continuous_runs_ && one.may_leave(model_->first_site()) ? joining_ : ready_;
  }
  // A text that is alone is answered sooner by a runner.
  [[nodiscard]] bool joiner_is_alone() const { return joining_.size() == 1 && continuous_texts_ == 0; }

  // Steps of the continuous batch, as long as it has texts.
  void run_continuous() {
    BySlot texts;
    while (true) {
      std::exception_ptr failure;
      try {
        use_gpu(gpu_);
        if (!join_waiting(texts)) return;
        if (continuous_->texts() == 0) continue;
        const Clock::time_point began = now_();
        const int rows = continuous_->rows();
        continuous_->step();
        for (const int slot : continuous_->finished()) {
          const std::unique_ptr<Waiting> one = std::move(texts[static_cast<size_t>(slot)]);
          deliver(&continuous_->results(), *one, slot, 0);
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
        continuous_runs_ = false;
        for (Waiting& one : joining_) ready_.push_back(std::move(one));
        joining_.clear();
        changed_.notify_all();
      }
      for (const std::unique_ptr<Waiting>& one : texts)
        if (one) fail(*one, failure);
      return;
    }
  }

  // Lets texts that wait join the continuous batch, in their order; waits for some if it is empty. False: the engine
  // closes, and nothing is under way.
  [[nodiscard]] bool join_waiting(BySlot& texts) {
    std::unique_lock lock(mutex_);
    continuous_texts_ = continuous_->texts();
    if (continuous_texts_ == 0) {
      if (joiner_is_alone()) changed_.notify_all();  // a runner may take it now
      changed_.wait(
          lock, [&] { return closing_ || (!joining_.empty() && (!joiner_is_alone() || busy_runners_ == kRunners)); });
    }
    if (closing_) return continuous_texts_ > 0;
    while (!joining_.empty()) {
      Waiting& next = joining_.front();
      if (broken_ || over(next)) {
        end_first(joining_, lock);
        continue;
      }
      const auto tokens = static_cast<int>(next.encoding().ids.size());
      auto one = std::make_unique<Waiting>(std::move(next));  // does not move while the batch knows its address
      const std::optional<int> slot =
          continuous_->add(one->encoding(), slot_options(*one, continuous_->rows() + tokens));
      if (!slot) {
        next = std::move(*one);
        break;
      }
      if (texts.size() <= static_cast<size_t>(*slot)) texts.resize(static_cast<size_t>(*slot) + 1);
      texts[static_cast<size_t>(*slot)] = std::move(one);
      joining_.pop_front();
      ++continuous_texts_;
    }
    return true;
  }

  void run(BatchRunner& runner) {
    Batch batch;
    while (true) {
      std::exception_ptr failure;
      try {
        use_gpu(gpu_);
        if (!take(runner, batch)) return;
        if (batch.empty()) continue;
        const Clock::time_point began = now_();
        if (batch.front().by_layer()) {
          run_by_layer(runner, batch);
        } else {
          runner.start();
          runner.wait();
        }
        const double seconds = std::chrono::duration<double>(now_() - began).count();
        row_seconds_.store(seconds / runner.rows() / spec().layers, std::memory_order_relaxed);
        if (!batch.front().by_layer()) {
          for (size_t i = 0; i < batch.size(); ++i)
            deliver(&runner.results(), batch[i], static_cast<int>(i), seconds / static_cast<double>(batch.size()));
        }
      } catch (...) {
        failure = std::current_exception();
      }
      if (!failure) continue;
      // A GPU does not recover within a process: what follows fails with the same error.
      {
        const std::scoped_lock lock(mutex_);
        broken_ = failure;
      }
      for (Waiting& one : batch) {
        if (one.index != kDelivered) fail(one, failure);
      }
    }
  }

  // Fills a runner with texts that wait, in their order; `batch` is what it had before. False: the engine closes.
  [[nodiscard]] bool take(BatchRunner& runner, Batch& batch) {
    runner.clear();
    const bool was_busy = !batch.empty();
    batch.clear();
    std::unique_lock lock(mutex_);
    if (was_busy) --busy_runners_;
    changed_.wait(lock, [&] { return closing_ || !ready_.empty() || joiner_is_alone(); });
    if (closing_) return false;
    if (ready_.empty()) {
      ready_.push_back(std::move(joining_.front()));
      joining_.pop_front();
    }
    // No element moves: the runner keeps addresses.
    batch.reserve(std::min(ready_.size(), static_cast<size_t>(runner.max_capacity().texts)));
    while (!ready_.empty() && batch.size() < batch.capacity()) {
      Waiting& next = ready_.front();
      if (!batch.empty() && (!batch.front().goes_with(next) || alone(next))) break;
      const bool by_layer = next.by_layer();
      const auto tokens = static_cast<int>(next.encoding().ids.size());
      if (by_layer && !batch.empty() && runner.rows() + tokens > kRowsByLayer) break;
      if (broken_ || over(next)) {
        end_first(ready_, lock);
        continue;
      }
      batch.push_back(std::move(next));
      if (!runner.add(batch.back().encoding(), slot_options(batch.back(), runner.rows() + tokens))) {
        ready_.front() = std::move(batch.back());
        batch.pop_back();
        break;
      }
      ready_.pop_front();
      if (alone(batch.back())) break;
    }
    if (!batch.empty()) {
      ++busy_runners_;
      if (!joining_.empty()) changed_.notify_all();  // no runner may be left for it
    }
    return true;
  }

  [[nodiscard]] static bool alone(const Waiting& one) { return one.pass && one.pass->alone; }

  // Whether a text ends before it runs.
  [[nodiscard]] bool over(const Waiting& one) const {
    if (!one.answers()) return false;
    return one.job.cancelled->load(std::memory_order_relaxed) ||
           (one.job.ask.deadline != kNoDeadline && now_() >= one.job.ask.deadline);
  }
  // Answers the first text of a queue, which ends before it runs.
  void end_first(std::deque<Waiting>& queue, std::unique_lock<std::mutex>& lock) {
    Waiting gone = std::move(queue.front());
    queue.pop_front();
    const std::exception_ptr why = broken_;
    lock.unlock();
    if (why) {
      fail(gone, why);
    } else if (!gone.job.cancelled->load(std::memory_order_relaxed) && !gone.exit_0.empty()) {
      gone.stop = 0;
      gone.late = true;
      deliver(nullptr, gone, 0, 0);
    } else {
      const bool cancelled = gone.job.cancelled->load(std::memory_order_relaxed);
      gone.job.done(Answer{.stop_reason = cancelled ? StopReason::cancelled : StopReason::deadline});
    }
    lock.lock();
  }

  // The options of a text in a batch of `rows` rows. The host does not interrupt a batch, so a text with a
  // deadline gets the deepest exit that such a batch reaches in time; the first of the device at the least.
  [[nodiscard]] SlotOptions slot_options(Waiting& one, int rows) const {
    const int last = static_cast<int>(exits().sites.size()) - 1;
    if (one.pass) return {.stop = last, .all_exits = !one.takes_rows()};
    const Ask& ask = one.job.ask;
    if (ask.deadline != kNoDeadline) {
      const double left = std::chrono::duration<double>(ask.deadline - now_()).count();
      const double layer = row_seconds_.load(std::memory_order_relaxed) * rows;
      while (one.stop > static_cast<int>(model_->first_site()) &&
             layer * exits().sites[static_cast<size_t>(one.stop)].after > left) {
        --one.stop;
        one.late = true;
      }
    }
    return {.policy = ask.policy ? &ask.policy->bound : nullptr,
            .stop = one.stop,
            .all_exits = ask.deadline != kNoDeadline,
            .state = one.state};
  }

  void deliver(const BatchResults* results, Waiting& one, int text, double seconds) {
    if (one.pass) {
      Engine::FullPass pass = exits_of(*results, one, text);
      pass.processor_seconds = seconds;
      one.pass->done(std::exchange(one.index, kDelivered), std::move(pass), {});
      return;
    }
    Answer answer;
    try {
      answer = answer_of(exits(), one, results, text);
    } catch (...) {
      answer = failed_answer(std::current_exception());
    }
    one.index = kDelivered;
    one.job.done(std::move(answer));
  }

  [[nodiscard]] Engine::FullPass exits_of(const BatchResults& results, const Waiting& one, int text) const {
    Engine::FullPass pass;
    if (ngrams_) {
      pass.logits.resize(static_cast<size_t>(exits().outputs));
      ngrams_->run(one.encoding().ids, pass.logits.data());
    }
    for (auto site = static_cast<int>(model_->first_site()); site < static_cast<int>(exits().sites.size()); ++site) {
      const float* logits = results.logits_of(text, site);
      pass.logits.insert(pass.logits.end(), logits, logits + exits().outputs);
      if (exits().lte) pass.lte.push_back(results.lte_of(text, site));
    }
    if (exits().last_ramp) pass.ramp.assign(results.ramp_of(text), results.ramp_of(text) + exits().outputs);
    return pass;
  }

  // A batch whose rows are read after every layer: row 0 of a pass, or all.
  void run_by_layer(BatchRunner& runner, Batch& batch) {
    const auto hidden = static_cast<size_t>(spec().hidden);
    const auto rows = static_cast<size_t>(runner.rows());
    const DeviceMemory wide = device_memory(rows * hidden * sizeof(float), "rows of a layer");
    const PinnedMemory host = pinned_memory(rows * hidden * sizeof(float), "rows of a layer");
    const auto* values = reinterpret_cast<const float*>(host.data());
    std::vector<std::vector<float>> first(batch.size());
    const bool takes_rows = batch.front().takes_rows();
    const int depth = batch.front().pass->depth;
    const Clock::time_point began = now_();
    runner.run_by_layer(depth, [&](int layer, const void* from, const TextList&) {
      if (takes_rows && layer == 0) return;
      widen(model_->number, from, reinterpret_cast<float*>(wide.data()), rows * hidden, runner.stream());
      copy_to_host(host.data(), wide.data(), rows * hidden * sizeof(float), runner.stream());
      runner.wait();
      size_t begin = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        const size_t tokens = batch[i].encoding().ids.size();
        const std::span<const float> here(values + begin * hidden, tokens * hidden);
        if (takes_rows) {
          batch[i].pass->take(batch[i].index, layer, here);
        } else {
          first[i].insert(first[i].end(), here.begin(), here.begin() + static_cast<ptrdiff_t>(hidden));
        }
        begin += tokens;
      }
    });
    runner.wait();
    const double seconds = std::chrono::duration<double>(now_() - began).count() / static_cast<double>(batch.size());
    const int last = static_cast<int>(exits().sites.size()) - 1;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto text = static_cast<int>(i);
      Engine::FullPass pass;
      if (!takes_rows) {
        pass = exits_of(runner.results(), batch[i], text);
        pass.row_0 = std::move(first[i]);
      } else if (depth == spec().layers) {
        const float* logits = runner.results().logits_of(text, last);
        pass.logits.assign(logits, logits + exits().outputs);
      }
      pass.processor_seconds = seconds;
      batch[i].pass->done(std::exchange(batch[i].index, kDelivered), std::move(pass), {});
    }
  }

  static constexpr size_t kDelivered = static_cast<size_t>(-1);

  [[nodiscard]] const ModelSpec& spec() const noexcept { return model_->spec; }
  [[nodiscard]] const ExitLayout& exits() const noexcept { return model_->exits; }

  Clock::time_point (*now_)();
  int gpu_;
  std::unique_ptr<DeviceModel> model_;
  std::optional<NgramExit> ngrams_ = {};  // exit 0
  std::vector<std::unique_ptr<BatchRunner>> runners_ = {};
  std::unique_ptr<ContinuousBatch> continuous_ = {};  // null: the model has none
  std::atomic<double> row_seconds_{0};                // that a row took in a layer, in the last batch; 0: not yet known
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex, like all up to `closing_`: for a runner, and for the continuous batch.
  std::deque<Waiting> ready_ = {}, joining_ = {};
  int busy_runners_ = 0, continuous_texts_ = 0;
  bool continuous_runs_ = false;
  std::exception_ptr broken_ = {};
  bool closing_ = false;
  std::vector<std::thread> threads_ = {};
  std::optional<TokenizerPool> tokenizer_pool_ = {};
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
