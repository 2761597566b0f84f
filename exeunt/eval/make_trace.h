// SPDX-License-Identifier: Apache-2.0
// One full-depth pass of a model over a dataset: the trace that everything else is computed from.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "exeunt/data/dataset.h"
#include "exeunt/data/learned_rows.h"
#include "exeunt/engine/device.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/policy/trace.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct TraceOptions {
  int max_length = 0;  // 0: as RunRequest::max_length
  int threads = 0;     // 0 = as many as the machine has
  Device device = {};
  std::optional<Precision> precision = {};      // none: the model's default (resolve.h)
  std::optional<Exceptions> exceptions = {};    // matrices in another precision; none: precision.json's
  std::filesystem::path tokenizer = {};         // folder it was loaded from; empty = the model's
  std::string weights = {};                     // SHA-256 of the model's, where it is known; empty = computed
  std::function<void(int64_t)> advance = {};    // called after every text, from any thread, one call at a time
  std::function<void(int64_t)> truncated = {};  // called once, with the number of texts that were
};

// The data's gold is mapped to the model's label order by name. Throws
// Error if model and data do not fit: no heads, labels the model does not have, classes for a regression model.
[[nodiscard]] ExitTrace make_trace(const Checkpoint& model, const Tokenizer& tokenizer, Dataset data,
                                   const TraceOptions& options);

// Refuses labelled rows of another problem than the model's (bad_file).
void require_same_problem(const Checkpoint& model, const Dataset& data);

// How much of a text was learned. `text` has its tokens at `max_length`; training may have truncated it elsewhere, then
// `encode` gives its tokens at another length.
[[nodiscard]] Overlap overlap_of(const LearnedRows& learned, const Encoding& text, int max_length,
                                 const std::function<Encoding(int)>& encode);

}  // namespace exeunt
