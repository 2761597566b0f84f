// SPDX-License-Identifier: Apache-2.0
// An exit policy twice: PolicySpec as people write and files store it, and Policy, the same put together with one
// model's exits. Policy is plain data that may be copied to a device; `step` decides with it, there and here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/exits/rules/list.h"

namespace exeunt {

inline constexpr int kMaxExits = 128;

struct PolicySpec {
  Rule rule = rule_of<FullRule>;
  Params params{};
  std::vector<float> per_exit;     // thresholds or weights, one per evaluated exit; empty = the same for all
  std::vector<float> temperature;  // one per exit of the model; empty = 1 everywhere
  std::vector<int> exits;          // layers (from 1) whose exits are evaluated; empty = all

  bool operator==(const PolicySpec&) const = default;
};

// What a policy must know of a model.
struct ExitSites {
  std::vector<int> layers;  // after which layer each exit sits: from 1, rising
  int outputs = 0;
  bool regression = false;
  bool lte = false;
};

struct Policy {
  Rule rule = rule_of<FullRule>;
  int count = 0;         // evaluated exits; the last of them always answers
  int classes = 0;       // outputs of an exit
  int state_floats = 0;  // per text, moves with it, all zero at its start; `memory` included
  int memory = -1;       // where in the state the previous probabilities lie; -1 = they are not needed
  float params[kMaxParams] = {};
  int site[kMaxExits] = {};           // [count] which of the model's exits is evaluated nth
  int nth[kMaxExits] = {};            // [exits of the model] the reverse; -1 = not evaluated
  float own[kMaxExits] = {};          // [count] threshold or weight
  float temperature[kMaxExits] = {};  // [count]
};

// Puts policy and model together, or throws Error (usage) saying why they do not fit.
[[nodiscard]] Policy bind(const PolicySpec& spec, const ExitSites& sites);

// Checks a spec on its own: parameters within their ranges and in agreement. Throws Error (usage).
void check_spec(const PolicySpec& spec);

// Does a text leave at the nth evaluated exit? `state` is its own; the last exit always says yes.
EXEUNT_HOST_DEVICE inline bool step(const Policy& policy, int nth, const Evidence& evidence, float* state) noexcept {
  const RuleArgs args{policy.params, policy.own[nth], nth};
  const bool leaves = detail::leave_by(Rules{}, policy.rule, args, evidence, state);
  return leaves || nth + 1 >= policy.count;
}

// What an exit of a running model put out for one text.
struct ExitOutput {
  const float* logits;  // [classes]
  float lte = 0;
};

// The evidence of the nth evaluated exit, for `step` with the same state.
EXEUNT_HOST_DEVICE inline Evidence weigh(const Policy& policy, int nth, const ExitOutput& output,
                                         float* state) noexcept {
  const Reading reading{output.logits, policy.classes, policy.temperature[nth], output.lte};
  return weigh(reading, policy.memory < 0 ? nullptr : state + policy.memory);
}

}  // namespace exeunt
