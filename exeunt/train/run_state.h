// SPDX-License-Identifier: Apache-2.0
// A run between two steps: everything that must come back for the rest of it to be the same bit for bit. It is kept
// in checkpoint-N: a model folder of ours with training.safetensors and trainer_state.json beside the weights.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "exeunt/base/json.h"
#include "exeunt/train/stepper.h"

namespace exeunt::nn {

struct RunPosition {
  int64_t stage = 0, epoch = 0;
  int64_t batch = 0;       // next of the epoch
  int64_t stage_step = 0;  // optimiser steps done in this stage
  int64_t step = 0;        // in all
};

struct BestSoFar {
  std::optional<double> score = {};
  int64_t step = 0, since = 0;  // evaluations since then
  std::map<std::string, Tensor> parameters = {};
};

struct RunState {
  RunPosition position;
  BestSoFar best;
  OrderedJson log = OrderedJson::array();  // every entry of the log so far
  OrderedJson configuration;               // what a resumed run must agree with
  std::vector<Tensor> random = {};         // states of the random numbers of all processes, by rank; empty = this one's
  double loss_sum = 0;                     // over all steps, for the mean
  int64_t evaluated = -1;                  // step of the last evaluation in the log
};

// Writes the folder `path` whole or not at all, every file flushed and hashed. Throws Error; then nothing has changed.
struct SavedWeights {
  Checkpoint checkpoint;
  std::string recipe;  // text of recipe.json
};
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

// Puts weights, optimiser, learned loss weights, slow teacher and random numbers back.
void restore(const LoadedState& loaded, Stepper& stepper, int rank = 0);

// checkpoint-N folders in `out`, newest first.
[[nodiscard]] std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& out);

// Folders that a killed run was still writing.
void remove_partial(const std::filesystem::path& out);

// The first place where two configurations differ, as "field: the checkpoint has X, this run Y"; empty if none.
[[nodiscard]] std::string first_difference(const Json& stored, const Json& now);

}  // namespace exeunt::nn
