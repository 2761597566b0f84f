// SPDX-License-Identifier: Apache-2.0
// Packs whose texts and steps a test chooses: in an engine they depend on what waits at the moment.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "exeunt/engine/cpu/pack_run.h"
#include "tests/unit/engine/tables.h"

namespace exeunt {

class Packs {
 public:
  struct Options {
    int pack_rows = 1000, threads = 1;
    ClsFirst cls_first = ClsFirst::automatic;
    Clock::time_point (*now)() = &Clock::now;
  };
  Packs(const Checkpoint& checkpoint, const Way& way, const Options& options)
      : model_(checkpoint, *way.kernels, {.precision = way.precision, .threads = 1}),
        pool_({.threads = options.threads, .processors = options.threads, .help = true}) {
    for (int i = 0; i < options.threads; ++i) spaces_.emplace_back(model_, options.pack_rows);
    context_ = {.model = &model_,
                .spaces = spaces_,
                .pack_rows = options.pack_rows,
                .cls_first = options.cls_first,
                .now = options.now,
                .row_seconds = &row_seconds_};
  }

  // Calls `use` on a thread of the pool, and waits.
  void run(const std::function<void(PackRun&)>& use) {
    std::promise<void> done;
    pool_.push([&](WorkerPool::Worker& worker) {
      PackRun pack(context_, worker);
      use(pack);
      done.set_value();
    });
    done.get_future().wait();
  }

  // A text that puts its answer into `out`, and ends if `cancelled` says so.
  using Flag = std::shared_ptr<std::atomic<bool>>;
  [[nodiscard]] std::unique_ptr<TextRun> answering(const Encoding& text, const Ask& ask, Answer& out,
                                                   Flag cancelled = std::make_shared<std::atomic<bool>>(false)) {
    return std::make_unique<AnswerRun>(model_, closing_,
                                       AnswerJob{.source = {.borrowed = &text},
                                                 .ask = ask,
                                                 .done = [&out](Answer&& answer) { out = std::move(answer); },
                                                 .cancelled = std::move(cancelled)});
  }
  [[nodiscard]] const PackedModel& model() const { return model_; }
  [[nodiscard]] std::atomic<double>& row_seconds() { return row_seconds_; }

 private:
  PackedModel model_;
  std::vector<Workspace> spaces_ = {};
  std::atomic<double> row_seconds_{0};
  std::atomic<bool> closing_{false};
  PackContext context_ = {};
  WorkerPool pool_;
};

inline void add_to(PackRun& pack, std::unique_ptr<TextRun> text) {
  text->prepare() ? pack.add(std::move(text)) : text->finish();
}

inline void run_out(PackRun& pack) {
  while (!pack.empty()) pack.step();
}

}  // namespace exeunt
