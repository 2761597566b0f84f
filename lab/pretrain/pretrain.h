// SPDX-License-Identifier: Apache-2.0
// Pretraining from start to end, as a caller without torch sees it: a corpus and options in, a folder and figures out.
// In `out`: run.json, log.jsonl, checkpoint-N to resume from, and at the end results.json and model/, a backbone.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "exeunt/base/progress.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/train/inputs.h"
#include "lab/pretrain/corpus.h"
#include "lab/pretrain/pretrain_rows.h"
#include "lab/pretrain/pretrain_settings.h"

namespace exeunt {

struct PretrainOptions : PretrainSettings {
  std::filesystem::path out;
  std::optional<ModelSpec> scratch = {};  // begin with random weights of this shape; the base gives the tokenizer
  PretrainShape shape = {};               // special tokens and sizes; see shape_for()
  ProgressStyle progress = {};
  Notice notice = {};
  const std::atomic<bool>* stop = nullptr;  // set from outside: save a checkpoint and end
};

struct PretrainResult {
  bool stopped = false;  // by `stop`, before the end; `out` can be resumed
  int64_t steps = 0;
  OrderedJson results = {};  // as results.json has them
};

// The special tokens of a tokenizer, by the names that families use. Throws Error (bad_file) if it has no token to hide
// others with.
[[nodiscard]] PretrainShape shape_for(const Tokenizer& tokenizer, const ModelSpec& spec,
                                      const PretrainSettings& settings);

// Throws Error. Whatever happens, the last good checkpoint in `out` stays.
PretrainResult pretrain(const Checkpoint& base, const Corpus& corpus, const PretrainOptions& options);

}  // namespace exeunt
