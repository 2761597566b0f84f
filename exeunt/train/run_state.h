// SPDX-License-Identifier: Apache-2.0
// A run between two steps: everything that must come back for the rest of it to be the same bit for bit. It is kept
// in checkpoint-N: a model folder of ours with training.safetensors and trainer_state.json beside the weights.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/base/fields.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/train/inputs.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/stepper.h"

namespace exeunt::nn {

// Tensors of a run's state on their way to a file and back.
// It keeps copies alive until they are written.
class StateTensors {
 public:
  void add(const std::string& name, const Tensor& tensor);  // fp32 or bytes; nothing if undefined
  [[nodiscard]] const std::vector<NamedTensor>& list() const noexcept { return list_; }

 private:
  std::vector<Tensor> kept_;
  std::vector<NamedTensor> list_;
};

[[nodiscard]] Tensor tensor_of(const TensorSet& set, const std::string& name);  // undefined if there is none

// What every kind of training keeps: AdamW's moments, whose numbers of updates are `counts` by name, and the random
// numbers of the CPU under `cpu` and of a GPU.
[[nodiscard]] OrderedJson add_optimizer(const AdamW& adam, StateTensors& tensors);
void restore_optimizer(const TensorSet& tensors, const Json& counts, AdamW& adam);
void add_gpu_random(const torch::Device& device, StateTensors& tensors);
void restore_random(const TensorSet& tensors, const std::string& cpu, const torch::Device& device);

struct RunPosition {
  int64_t stage = 0, epoch = 0;
  int64_t batch = 0;       // next of the epoch
  int64_t stage_step = 0;  // optimiser steps done in this stage
  int64_t step = 0;        // in all
};

// The best evaluation of a stage, and its weights where they are to be kept.
struct BestSoFar {
  std::optional<double> score = {};
  int64_t step = 0, since = 0;  // evaluations since then
  std::map<std::string, Tensor> parameters = {};

  // Whether this score, of an evaluation at `step`, is the best so far.
  [[nodiscard]] bool offer(double score, int64_t step);
  void keep(const NetworkImpl& network);
  void restore(NetworkImpl& network) const;
};

struct RunState {
  RunPosition position;
  BestSoFar best;
  OrderedJson log = OrderedJson::array();  // every entry of the log so far
  OrderedJson configuration;               // what a resumed run must agree with
  std::vector<Tensor> random = {};         // states of the random numbers of all processes, by rank; empty = this one's
  double loss_sum = 0;                     // over all steps, for the mean
  int64_t evaluated = -1;                  // step of the last evaluation in the log

  // The scalars in trainer_state.json.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    const auto number = [&](std::string_view name, auto& value, double low = 0) {
      visit(Field{.name = name, .low = low, .high = 1LL << 53, .required = true}, value);
    };
    number("global_step", self.position.step);
    number("epoch", self.position.epoch);
    number("stage", self.position.stage);
    number("batch", self.position.batch);
    number("stage_step", self.position.stage_step);
    number("loss_sum", self.loss_sum, -INFINITY);
    visit(Field{.name = "best_metric"}, self.best.score);
    number("best_global_step", self.best.step);
    number("evaluations_since_best", self.best.since);
    number("evaluated_global_step", self.evaluated, -1);
  }
};

// Writes the folder `path` whole or not at all, every file flushed and hashed. Throws Error; then nothing has changed.
void save_state(const std::filesystem::path& path, const SavedWeights& weights, const RunState& state,
                Stepper& stepper);

// A whole checkpoint: the weights and the state, hashes verified. Throws Error if anything is damaged or missing.
struct LoadedState {
  RunState state;
  Checkpoint weights;
  TensorSet tensors;
  Json slots;
};
[[nodiscard]] LoadedState read_state(const std::filesystem::path& folder);

// Restores weights, optimiser, learned loss weights, the EMA teacher and random numbers.
void restore(const LoadedState& loaded, Stepper& stepper, int rank = 0);

// The newest intact checkpoint in `out`; damaged ones are named and skipped. Throws Error (usage) if it was trained
// with another configuration.
[[nodiscard]] std::optional<LoadedState> newest_checkpoint(const std::filesystem::path& out,
                                                           const OrderedJson& configuration, const Notice& notice);

}  // namespace exeunt::nn
