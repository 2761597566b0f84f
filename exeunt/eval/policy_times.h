// SPDX-License-Identifier: Apache-2.0
// Exit policies by the clock: the same texts run under every policy, in turns, so that whatever else the machine does
// affects all of them alike.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/eval/measure.h"
#include "exeunt/policy/policy.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct PolicyTime {
  std::string policy = {};    // text form
  double ms = 0;              // of one text: a round's time over the number of texts, the median of the rounds
  double clock_speedup = 0;   // full depth's ms over this one
  double average_layers = 0;  // after which the texts left
  double layers_speedup = 0;  // the model's layers over these
};

struct PolicyTimes {
  PolicyTime full = {};               // every text at full depth, the measure of the speed-ups
  std::vector<PolicyTime> rows = {};  // in the order of the policies
  std::string engine = {}, precision = {};
  int threads = 0, rounds = 0;
  size_t texts = 0, at_once = 0;
  double spread = 0;  // of the policy where rounds differ most: its largest speed-up over its smallest, less 1
};

struct TimingPlan {
  double seconds = 1;  // for each policy, at least; and no fewer than kLeastRounds rounds
  size_t texts = 0;    // of the data, evenly spread; 0 = all
  size_t at_once = 1;  // texts that wait together; 1 as in the papers' evaluations
};
inline constexpr int kLeastRounds = 3;

// Texts are tokenized before the clock starts. Throws Error if a policy does not fit the model.
[[nodiscard]] PolicyTimes time_policies(Engine& engine, std::span<const Encoding> texts,
                                        std::span<const PolicySpec> policies, const TimingPlan& plan);

// The same with the data, precision, length and threads of the options; `model` is the one they name.
[[nodiscard]] PolicyTimes time_policies(const MeasureOptions& options, const Checkpoint& model,
                                        std::span<const PolicySpec> policies, const TimingPlan& plan,
                                        const Observer& observer);

// The data of the options as the model's tokens. Throws Error.
[[nodiscard]] std::vector<Encoding> encoded_texts(const MeasureOptions& options, const Checkpoint& model, size_t most,
                                                  const Observer& observer);

}  // namespace exeunt
