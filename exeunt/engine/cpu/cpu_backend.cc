// SPDX-License-Identifier: Apache-2.0
// The CPU's backend: a queue of texts, and threads that take one, or a pack of those that wait, through the layers.
#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/engine/backend.h"
#include "exeunt/engine/cpu/pack_run.h"

namespace exeunt {
namespace {

const Kernels& prepared(const Kernels* wanted) {
  if (wanted == nullptr) return choose_kernels();
  if (!wanted->runs_on(cpu_features()) || !wanted->prepare()) {
    throw Error(Code::resources, fmt::format("kernels '{}': this processor does not run them", wanted->name));
  }
  return *wanted;
}

PackOptions pack_options(const Kernels& kernels, const EngineOptions& options, int threads) {
  return {.precision = options.precision.value_or(kernels.bf16 ? Precision::bf16 : Precision::fp32),
          .exceptions = options.exceptions,
          .threads = threads};
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Checkpoint& checkpoint, const Kernels& kernels, const EngineOptions& options, int threads)
      : model_(checkpoint, kernels, pack_options(kernels, options, threads)),
        max_parallel_(std::min(threads, cpu_features().threads)),
        pool_({.threads = threads, .processors = cpu_features().threads, .help = options.split}) {
    const int rows = options.pack_rows > 0 ? options.pack_rows : default_pack_rows(kernels, model_.precision);
    for (int i = 0; i < threads; ++i) spaces_.emplace_back(model_, rows);
    info_ = {.spec = model_.spec,
             .exits = model_.exits,
             .precision = model_.precision,
             .traits = engine_traits(Device{}, &kernels),
             .kernels = &kernels,
             .threads = threads,
             .pack_rows = rows,
             .weight_bytes = model_.bytes()};
    context_ = {.model = &model_,
                .spaces = spaces_,
                .pack_rows = rows,
                .cls_first = options.cls_first,
                .now = options.now,
                .row_seconds = &row_seconds_};
  }
  ~CpuBackend() override { closing_ = true; }

  void submit(std::span<AnswerJob> jobs) override {
    Texts texts;
    texts.reserve(jobs.size());
    for (AnswerJob& job : jobs) texts.push_back(std::make_unique<AnswerRun>(model_, closing_, std::move(job)));
    push(std::move(texts));
  }

  void run_passes(std::span<const Encoding> encodings, const std::shared_ptr<const PassRequest>& request) override {
    Texts texts;
    texts.reserve(encodings.size());
    for (size_t i = 0; i < encodings.size(); ++i)
      texts.push_back(std::make_unique<PassRun>(model_, encodings[i], i, request));
    push(std::move(texts));
  }

  [[nodiscard]] size_t waiting() const noexcept override {
    const std::scoped_lock lock(mutex_);
    return queue_.size();
  }

 private:
  using Texts = std::vector<std::unique_ptr<TextRun>>;

  // Texts wait here in order. There is a runner, a task of the pool, for each thread that may find one. All texts get
  // in line before the first can run, or none if memory ends.
  void push(Texts texts) {
    const std::scoped_lock lock(mutex_);
    const auto before = static_cast<ptrdiff_t>(queue_.size());
    try {
      for (std::unique_ptr<TextRun>& text : texts) queue_.push_back(std::move(text));
      for (size_t n = 0; n < texts.size() && runners_ < pool_.threads(); ++n) {
        pool_.push([this](WorkerPool::Worker& worker) { run_packs(worker); });
        ++runners_;
      }
    } catch (...) {
      queue_.erase(queue_.begin() + before, queue_.end());
      throw;
    }
  }

  void run_packs(WorkerPool::Worker& worker) {
    PackRun pack(context_, worker);
    for (bool again = false;; again = true) {
      size_t most = 0;
      {
        const std::scoped_lock lock(mutex_);
        if (again) --busy_;
        if (queue_.empty()) {
          --runners_;
          return;
        }
        ++busy_;
        most = claim();
      }
      fill(pack, most);
      while (!pack.empty()) {
        pack.step();
        if (!pack.admits_midway()) continue;
        {
          const std::scoped_lock lock(mutex_);
          most = queue_.empty() ? 0 : claim();
        }
        fill(pack, most);
      }
    }
  }

  // How many of the texts that wait a busy thread takes at most: its share, so that threads without work find some,
  // too. Under the mutex.
  [[nodiscard]] size_t claim() {
    const auto sharers = static_cast<size_t>(std::max(1, max_parallel_ - busy_ + 1));  // free threads, and this one
    const size_t unclaimed = queue_.size() - std::min(queue_.size(), claimed_);
    const size_t most = std::max<size_t>(1, (unclaimed + sharers - 1) / sharers);
    claimed_ += most;
    return most;
  }

  // Takes the texts claimed in their order as far as the pack admits them, and waits for none.
  void fill(PackRun& pack, size_t most) {
    for (bool more = true; most > 0; --most) {
      std::unique_ptr<TextRun> text;
      {
        const std::scoped_lock lock(mutex_);
        --claimed_;
        more = more && !queue_.empty() && pack.admits(*queue_.front());
        if (!more) continue;
        text = std::move(queue_.front());
        queue_.pop_front();
      }
      if (!text->prepare()) {
        text->finish();
      } else if (pack.admits(*text)) {
        pack.add(std::move(text));
      } else {  // its length was not known before
        const std::scoped_lock lock(mutex_);
        queue_.push_front(std::move(text));
        more = false;
      }
    }
  }

  PackedModel model_;
  std::vector<Workspace> spaces_ = {};
  std::atomic<double> row_seconds_{0};
  PackContext context_ = {};
  std::atomic<bool> closing_{false};
  mutable std::mutex mutex_;
  std::deque<std::unique_ptr<TextRun>> queue_ = {};  // under mutex_, like the next three
  int runners_ = 0, busy_ = 0;                       // busy: those that run a pack
  size_t claimed_ = 0;                               // texts that busy threads are about to take
  int max_parallel_;                                 // threads that can run at once
  WorkerPool pool_;                                  // last: its threads end before anything they use
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Checkpoint& checkpoint, const EngineOptions& options) {
  const Kernels& kernels = prepared(options.kernels);
  const int threads = options.threads > 0 ? options.threads : cpu_features().threads;
  return std::make_unique<CpuBackend>(checkpoint, kernels, options, threads);
}

}  // namespace exeunt
