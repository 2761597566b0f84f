// SPDX-License-Identifier: Apache-2.0
// Rows for pretraining: consecutive sentences of one document, cut in two between sentences, the halves in order or
// swapped, and some tokens hidden. Which, is drawn anew every epoch, from seed, epoch and row alone: a run that is
// resumed sees the same rows without keeping any state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/pretrain/corpus.h"

namespace exeunt {

struct PackedRow {
  int64_t first = 0, last = 0;  // sentences of the corpus
};

struct PretrainShape {
  int tokens = 128;          // of a row, with [CLS] and two [SEP]
  double mask_share = 0.15;  // of a row's tokens, predicted
  int cls = 0, sep = 0, mask = 0, pad = 0, unknown = 0;
  int vocab = 0;
  int segments = 2;

  [[nodiscard]] int room() const noexcept { return tokens - 3; }
  [[nodiscard]] int slots() const noexcept;  // predictions that a row has at most
};

// Each document is packed by itself: as many whole sentences to a row as fit.
[[nodiscard]] std::vector<PackedRow> pack_rows(const Corpus& corpus, const PretrainShape& shape);

// Of these rows, those of every n-th document, 1 / n being about `share`: the same ones in every run. With fewer
// documents than that none is held out.
struct HeldOutRows {
  std::vector<PackedRow> train, held_out;
};
[[nodiscard]] HeldOutRows hold_out_documents(const Corpus& corpus, const std::vector<PackedRow>& rows, double share);

// What rows have to train on, whichever tokens are drawn.
struct PretrainCounts {
  int64_t tokens = 0;       // without padding
  int64_t predictions = 0;  // of masked tokens
  int64_t ordered = 0;      // rows that have an order
};
[[nodiscard]] PretrainCounts count_rows(const Corpus& corpus, const std::vector<PackedRow>& packed,
                                        std::span<const int64_t> which, const PretrainShape& shape);

// Rows side by side, in the shape in which they are trained on. Unused slots have weight 0 and place 0.
struct PretrainBatch {
  int64_t rows = 0;
  PretrainCounts counts;            // of these rows, or of the whole step that they are a part of: losses are its means
  std::vector<int64_t> ids, types;  // [rows, tokens]
  std::vector<uint8_t> real;        // [rows, tokens]: no padding
  std::vector<int64_t> order;       // [rows]: 0 in order, 1 swapped
  std::vector<float> order_weight;  // [rows]: 0 for a row of one sentence, which has no order
  std::vector<int64_t> places, gold;  // [rows, slots]: in the flattened rows, and what was there
  std::vector<float> weight;          // [rows, slots]: 1 for a prediction
};

struct Draw {
  uint64_t seed = 42, epoch = 0;
};

// The rows `which` of `packed`. Of the predicted tokens 80 % are replaced by [MASK], 10 % by any token, 10 % stay.
[[nodiscard]] PretrainBatch make_pretrain_batch(const Corpus& corpus, const std::vector<PackedRow>& packed,
                                                std::span<const int64_t> which, const PretrainShape& shape,
                                                const Draw& draw);

// All rows in a new order for each epoch; the same seed and epoch give the same order on every machine.
[[nodiscard]] std::vector<int64_t> shuffled_rows(int64_t rows, const Draw& draw);

}  // namespace exeunt
