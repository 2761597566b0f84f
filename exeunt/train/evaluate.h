// SPDX-License-Identifier: Apache-2.0
// A trace of a network in training: all exits' logits for a data set, from one pass, scored like any other trace.
#pragma once

#include "exeunt/data/features.h"
#include "exeunt/eval/scores.h"
#include "exeunt/policy/trace.h"
#include "exeunt/train/network.h"

namespace exeunt::nn {

struct TraceSource {
  std::string weights = {}, precision = "fp32";
  int64_t max_tokens = 8192;  // rows × longest row of a batch
};

// Runs in evaluation mode and restores the mode; draws no random number.
[[nodiscard]] ExitTrace trace_network(Network& network, const Features& features, const TraceSource& source = {});

// The scores of every exit.
[[nodiscard]] std::vector<ExitScore> score_exits(Network& network, const Features& features,
                                                 const std::vector<Metric>& metrics);

// At most so many of the rows, spread evenly over them.
[[nodiscard]] Features spread_evenly(const Features& all, size_t most);

// The share of rows that the last exit answers right, of at most `most` that are spread evenly over the features.
[[nodiscard]] double share_right(Network& network, const Features& features, size_t most);

}  // namespace exeunt::nn
