// SPDX-License-Identifier: Apache-2.0
// Trains exit 0 (engine/ngram_exit.h) to answer as the last exit does: stochastic gradient descent over one text at a
// time with a rate for every weight (Adagrad). The result is the same for any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/attach/imitation.h"
#include "exeunt/engine/ngram_exit.h"

namespace exeunt {

struct NgramSettings {
  int epochs = 12;
  size_t bytes = size_t{16} << 20;  // of the table at most; training takes six times as much, or ten,
  size_t memory = SIZE_MAX;         // which is faster and done where it fits; the result is the same
  uint64_t seed = 42;
};

struct TrainedNgrams {
  NgramShape shape = {};
  TokenPieces pieces = {};
  std::vector<uint16_t> table = {};  // [2^bits, rank] bf16
  std::vector<float> output = {}, bias = {};
  int epoch = 0;         // whose weights were kept: the one with the lowest validation loss
  double loss = 0;       // mean, on the validation texts
  double agreement = 0;  // as AttachedExit::agreement
};

// The first `train` of the texts, which are those of `targets`, are for training, the others for validation.
[[nodiscard]] TrainedNgrams train_ngrams(std::span<const Encoding> texts, size_t train, const Imitation& targets,
                                         TokenPieces pieces, const NgramSettings& settings, int threads);

}  // namespace exeunt
