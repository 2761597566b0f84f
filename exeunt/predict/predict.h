// SPDX-License-Identifier: Apache-2.0
// A stream of texts through an engine: answers come out in the order the texts went in, and only a window of them is in
// memory, however many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exeunt/data/text_stream.h"
#include "exeunt/engine/classifier.h"

namespace exeunt {

// One text and what the model said about it.
struct Prediction {
  int64_t index = 0;  // row in the source
  bool truncated = false;
  bool blank = false;  // there was no text, so there is no answer
  Answer answer = {};
  std::vector<std::string> kept = {};  // columns of the source to hand on
};

// One shard of a job. Row r belongs to shard r mod shards, so that shards take about the same time.
struct Shard {
  int number = 1, of = 1;
  [[nodiscard]] bool has(int64_t row) const noexcept { return row % of == number - 1; }
};
[[nodiscard]] Shard parse_shard(std::string_view text);  // "2/8"; throws Error usage

struct PredictPlan {
  bool strict = false;        // a text that is too long is an Error, not cut
  bool answer_blank = false;  // an empty text is answered as such instead of an Error
  Shard shard = {};
  std::function<bool(TextRow&)> next = {};               // the texts; false at the end
  std::function<void(const Prediction&)> answered = {};  // in the order of the source, on the calling thread
};

struct PredictCounts {
  int64_t rows = 0;      // of the source, other shards' included
  int64_t answered = 0;  // of this shard
  int64_t truncated = 0;
  int64_t blank = 0;   // of this shard, without a text
  int64_t layers = 0;  // sum of the layers after which the answers left
};

// Throws Error: bad_file for an empty text (unless `answer_blank`) and, if `strict`, one too long, with its place; what
// next() throws.
PredictCounts predict(Classifier& classifier, const PredictPlan& plan);

}  // namespace exeunt
