// SPDX-License-Identifier: Apache-2.0
// Exit 0 beside the other exits of a model: whether it is kept, and one for a model whose exits are trained.
#pragma once

#include <cstdint>
#include <string>

#include "exeunt/attach/ngram_trainer.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

// Whether the fit part promises notably fewer layers with exit 0, the first of its exits, than without. No other row is
// looked at; `certify_rows` is how many will certify.
[[nodiscard]] bool exit_0_pays(const CalibrationData& data, int64_t certify_rows, CalibrationPlan plan);

// The trace of the same model without its first exit, whose weights have this hash.
[[nodiscard]] ExitTrace without_first_exit(const ExitTrace& trace, const std::string& weights);

struct Exit0Options {
  TokenPieces pieces = {};  // of the model's tokenizer
  NgramSettings ngrams = {};
  CalibrationPlan plan = {};  // that will certify the model, on so many rows:
  int64_t certify_rows = 0;
  int threads = 0;  // 0 = one per processor; the result is the same for any number
};

// `model` with an exit 0 that learned from `train` to answer as the last exit does, if `validation` says that it pays;
// else as it is, and where it has a learning-to-exit head, which needs layers.
[[nodiscard]] Checkpoint with_exit_0(const Checkpoint& model, const TracedRows& train, const TracedRows& validation,
                                     const Exit0Options& options);

}  // namespace exeunt
