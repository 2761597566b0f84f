// SPDX-License-Identifier: Apache-2.0
// What a policy would have done, from a trace alone. Replay and the live engine decide by the same `step`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

// Where each row of a trace left.
struct Departures {
  std::vector<uint8_t> exit;  // [rows] which of the model's exits, from 0
  std::vector<bool> by_ramp;  // [rows] answered by the last ramp; empty unless LastHead::ramp
};

// Replays many policies over one trace. Evidence is computed once per choice of exits and temperatures and kept.
// The trace must outlive it. Not for use from several threads at once.
class Replayer {
 public:
  explicit Replayer(const ExitTrace& trace, LastHead last = LastHead::final);

  [[nodiscard]] Departures run(const PolicySpec& spec);  // throws Error (usage) if the policy does not fit

  // The logits that answer row `row`.
  [[nodiscard]] std::span<const float> answer(const Departures& departures, size_t row) const noexcept;
  // Every row's answer as one number (answer_of).
  [[nodiscard]] std::vector<float> answers(const Departures& departures) const;

 private:
  void weigh_all(const Policy& policy);

  const ExitTrace& trace_;
  ExitSites sites_;
  std::vector<int> weighed_sites_;  // what `evidence_` was computed for
  std::vector<float> weighed_temperature_;
  bool weighed_shift_ = false;
  std::vector<Evidence> evidence_;  // [rows, evaluated exits, then the ramp if there is one]
};

// One policy over one trace: the exit (from 0) that each row takes.
[[nodiscard]] Departures replay(const ExitTrace& trace, const PolicySpec& spec, LastHead last = LastHead::final);

}  // namespace exeunt
