// SPDX-License-Identifier: Apache-2.0
// Exits for a finished model: every layer but the last gets a reader, a pooler and a classifier, and the text before
// the first layer hashed n-grams, distilled from the last exit (the teacher) on unlabelled texts. The model itself is
// frozen: its weights and its last exit stay as they are, bit for bit.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/attach/head_trainer.h"
#include "exeunt/attach/ngram_trainer.h"
#include "exeunt/base/progress.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

// The model with its last exit alone: the head that answers at full depth. Throws Error (bad_file) for a bare backbone.
[[nodiscard]] Checkpoint finished_model(const Checkpoint& model);

struct AttachOptions {
  HeadSettings heads = {};
  int threads = 0;                                    // 0 = one per processor; the result is the same for any number
  size_t memory = size_t{1536} << 20;                 // for rows and trainers; less memory, more passes, equal results
  std::optional<TokenPieces> pieces = {};             // of the tokenizer, for exit 0; none: no such exit
  size_t ngram_bytes = NgramSettings{}.bytes;         // of its table at most
  ProgressStyle progress = progress_on_stderr(true);  // of its phases, "running the model" and "training exits"; quiet
  // Called once with the last exit's logits [train, outputs], before training; may throw.
  std::function<void(std::span<const float> logits)> on_teacher_logits = {};
};

struct AttachedExit {
  int after = 0;
  HeadArray weights;
  int epoch = 0;         // whose weights were kept: the one with the lowest validation loss
  double loss = 0;       // mean, on the validation texts
  double agreement = 0;  // share of validation texts with the last exit's label; values: mean |y_i − y_L|
};

struct AttachedExits {
  std::vector<AttachedExit> exits = {};
  std::optional<TrainedNgrams> ngrams = {};  // exit 0
};

// `engine` runs finished_model(). The epoch with the lowest loss on `validation` is kept.
[[nodiscard]] AttachedExits train_exits(Engine& engine, std::span<const Encoding> train,
                                        std::span<const Encoding> validation, const AttachOptions& options);

// `finished` with the new exits before its last one.
[[nodiscard]] Checkpoint with_exits(const Checkpoint& finished, const AttachedExits& attached);
// `model` with exit 0 before its exits.
[[nodiscard]] Checkpoint with_ngrams(const Checkpoint& model, const TrainedNgrams& ngrams);

}  // namespace exeunt
