// SPDX-License-Identifier: Apache-2.0
// Whole steps on a GPU - forward, backward, gradient rule, clipping, AdamW - recorded once for each shape of batch and
// then replayed. The host only fills in the batch and a few numbers, and does not wait for the result.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "exeunt/train/gpu.h"
#include "exeunt/train/recorded_adam.h"
#include "exeunt/train/stepper.h"

namespace exeunt::nn {

// A step that was begun.
class PendingStep {
 public:
  PendingStep(gpu::Sent sent, double rate) : sent_(std::move(sent)), rate_(rate) {}
  [[nodiscard]] StepReport report();  // waits for it

 private:
  gpu::Sent sent_;
  double rate_;
};

class StepGraphs {
 public:
  // Lengths are padded to multiples of this, so that few recordings serve all batches.
  static constexpr int64_t kTokens = 16;

  // `stepper` must outlive this.
  explicit StepGraphs(Stepper& stepper);
  ~StepGraphs();

  // One step over `batch`, which lies in the host's memory; `number` is its place in the epoch.
  [[nodiscard]] PendingStep run(const TrainBatch& batch, int64_t number);
  [[nodiscard]] size_t recordings() const noexcept { return entries_.size(); }

 private:
  struct Shape {
    int64_t rows = 0, tokens = 0;
    int phase = 0;
    auto operator<=>(const Shape&) const = default;
  };
  struct Entry;
  [[nodiscard]] std::unique_ptr<Entry> record(const TrainBatch& batch, int64_t number);
  void work(Entry& entry, int64_t number);

  Stepper& stepper_;
  gpu::Pool pool_;
  RecordedAdam update_;
  Tensor report_;  // loss, norm, and the projection's three
  std::map<Shape, std::unique_ptr<Entry>> entries_;
};

}  // namespace exeunt::nn
