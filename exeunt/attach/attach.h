// SPDX-License-Identifier: Apache-2.0
// Exits for a finished model: every layer but the last gets a reader, a pooler and a classifier that learn to answer as
// the last exit does, on texts without labels. The model itself is frozen: its weights and its last exit stay as they
// are, bit for bit.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "exeunt/attach/head_trainer.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

// The model with its last exit alone: the head that answers at full depth. Throws Error (bad_file) for a bare backbone.
[[nodiscard]] Checkpoint finished_model(const Checkpoint& model);

struct AttachOptions {
  HeadSettings heads = {};
  int threads = 0;                     // 0 = one per processor; the result is the same for any number
  size_t memory = size_t{1536} << 20;  // for rows and trainers; less memory, more passes, equal results
  // Called while it works: steps done of `total` in a phase called `what` ("rows", "heads"), from any thread, one call
  // at a time.
  std::function<void(std::string_view what, int64_t steps, int64_t total)> advance = {};
  // Called once with the last exit's logits [learn, outputs], before anything is learned; may throw.
  std::function<void(std::span<const float> logits)> answers = {};
};

struct AttachedExit {
  int after = 0;
  HeadArray weights;
  int epoch = 0;         // whose weights were kept: the one that did best on the texts for choosing
  double loss = 0;       // there, mean
  double agreement = 0;  // there, share of texts with the last exit's label; values: mean |y_i − y_L|
};

// `engine` runs finished_model(). Learns from `learn`; which epoch's weights are kept is chosen on `choose`.
[[nodiscard]] std::vector<AttachedExit> learn_exits(Engine& engine, std::span<const Encoding> learn,
                                                    std::span<const Encoding> choose, const AttachOptions& options);

// `finished` with the new exits before its last one.
[[nodiscard]] Checkpoint with_exits(const Checkpoint& finished, const std::vector<AttachedExit>& exits);

}  // namespace exeunt
