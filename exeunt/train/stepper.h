// SPDX-License-Identifier: Apache-2.0
// One stage of a recipe at work: micro-batches add their gradients, then one step combines, clips and applies them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/data/features.h"
#include "exeunt/train/adamw.h"
#include "exeunt/train/gradient.h"
#include "exeunt/train/objective.h"
#include "exeunt/train/stage_plan.h"
#include "exeunt/train/step_graphs.h"
#include "exeunt/train/world.h"

namespace exeunt::nn {

struct TrainBatch {
  TextBatch texts;
  Tensor gold;  // [rows] int64, or fp32 for a regression
};

struct StepperOptions {
  double lr = 2e-5;
  Schedule schedule = {};
  double epsilon = 1e-8;         // of AdamW
  const World* world = nullptr;  // whose gradients are all-reduced; null = this one alone
  bool bf16 = false;             // matrix products of the forward pass in bf16 (autocast); CUDA alone
  bool recorded = false;         // each step is one micro-batch; a GPU replays its forward and backward pass
};

// What happened in one step, for the log.
struct StepReport {
  double loss = 0;                                        // mean over the micro-batches
  std::optional<double> last_loss = {}, early_loss = {};  // its parts, where distillation has both
  double gradient_norm = 0;                               // before clipping
  double rate = 0;                                        // the learning rate that was used
  ProjectionReport projection = {};
};

class Stepper {
 public:
  // The network's parameters are changed in place; `recipe` and `stage` are copied.
  Stepper(Network network, const Recipe& recipe, const StageSpec& stage, const StepperOptions& options);

  // Forward and backward of one micro-batch, number `batch` of the epoch. `share` is its part of the step (1 / number
  // of micro-batches; 1 where steps are recorded). Returns the loss before that share.
  double add(const TrainBatch& data, int64_t batch, double share);
  // The same without waiting for the result: the loss stays where it was computed.
  Tensor accumulate(const TrainBatch& data, int64_t batch, double share);
  // Discards what was accumulated since the last step.
  void zero_grad();
  // Brings the gradients together as the rule says; they then lie in the parameters. step() does this by itself.
  void combine_gradients();
  // Applies what was added since the last step.
  StepReport step();

  [[nodiscard]] int64_t steps_done() const noexcept { return done_; }
  void set_steps_done(int64_t done) noexcept { done_ = done; }
  [[nodiscard]] AdamW& adam() noexcept { return adam_; }
  [[nodiscard]] Objective& objective() noexcept { return *objective_; }
  [[nodiscard]] Network& network() noexcept { return network_; }
  // The EMA teacher of distillation's variant ema, or null.
  [[nodiscard]] Network& teacher() noexcept { return teacher_; }

  // Whether a parameter learns in this stage.
  [[nodiscard]] bool trains(const std::string& name) const;

 private:
  [[nodiscard]] std::vector<AdamSlot> make_slots() const;
  [[nodiscard]] Loss losses(const TrainBatch& data, int64_t batch);
  [[nodiscard]] Tensor whole_pass(const TrainBatch& data, int64_t batch);
  void add_apart(const Loss& loss, double share);
  void begin();
  void all_reduce_gradients();
  void update_teacher();

  Network network_{nullptr}, teacher_{nullptr};
  Recipe recipe_;
  StageSpec stage_;
  StepperOptions options_;
  std::shared_ptr<Objective> objective_;
  AdamW adam_;
  std::vector<Tensor> parameters_;      // of the network, in its order
  std::vector<bool> projected_;         // those the projection looks at
  std::vector<bool> clipped_;           // those whose gradients are in the clipped norm
  std::vector<Tensor> anchor_, other_;  // gradients kept apart for the projection
  Tensor projection_;                   // what the projection found, [3]
  Tensor parts_;                        // of the loss, last and early, [2]; undefined unless the objective distils
  std::vector<Tensor> kept_;            // earlier gradients of learned loss weights, set aside during a step
  StepGraphs graphs_;                   // of whole_pass()
  bool recorded_ = false;               // whether steps are
  bool frozen_;                         // all but the exits before the last run as they do when they answer
  enum class Phase { idle, accumulating, combined } phase_ = Phase::idle;
  int64_t done_ = 0;
  double loss_ = 0;  // of the micro-batches so far
};

// Whether weight decay applies: not to biases and norms, except ALBERT's norm behind the feed-forward half, which the
// originals' test for "LayerNorm.weight" misses.
[[nodiscard]] bool decays(const std::string& name, const ModelSpec& spec);

// The exits before the last: everything under "exits." that the last exit does not use.
[[nodiscard]] bool belongs_to_early_exits(const std::string& name, const ExitLayout& layout);

// Rows of features as tensors: padded to the longest row of the batch, or on to a multiple.
// Lengths on a GPU: its attention copies a mask that is not a multiple of this.
inline constexpr int64_t kGpuTokens = 16;

struct BatchShape {
  int pad_id = 0;
  Problem problem = Problem::classification;
  torch::Device device = torch::kCPU;
  int64_t multiple = 1;    // of tokens …
  int64_t most = 1 << 30;  // … but not beyond this
};

[[nodiscard]] TrainBatch batch_tensors(const Features& features, std::span<const size_t> rows, const BatchShape& shape);

// How long a run will take, from a few batches timed before its first step; nothing is learned from them.
struct StepTimer {
  Network network;
  const TrainingData& data;
  const TrainOptions& options;
  const std::vector<StagePlan>& plans;
  const World& world;
  BatchShape shape;

  // Of all steps of all stages, judged by one batch of usual size.
  [[nodiscard]] double seconds() const;
  // How many times as long steps take that repeat bit for bit; nothing where they take the same operations.
  [[nodiscard]] std::optional<double> deterministic_cost() const;
};

}  // namespace exeunt::nn
