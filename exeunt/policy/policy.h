// SPDX-License-Identifier: Apache-2.0
// An exit policy twice: PolicySpec as people write and files store it, and Policy, the same bound to one
// model's exits. Policy is plain data that may be copied to a device. `step` decides with it, live and in replay.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/policy/rules/list.h"

namespace exeunt {

struct PolicySpec {
  Rule rule = rule_of<FullRule>;
  Params params{};
  std::vector<float> per_exit;           // thresholds or weights, one per evaluated exit; empty = the same for all
  std::vector<float> temperature;        // of decisions, one per exit of the model; empty = 1 everywhere
  std::vector<float> score_temperature;  // of the probabilities shown to the user, which decide nothing; the same shape
  std::vector<int> exits;                // layers (0: the exit before the first) whose exits are evaluated; empty = all

  bool operator==(const PolicySpec&) const = default;
};

// What a policy must know of a model.
struct ExitSites {
  std::vector<int> layers;  // after which layer each exit sits: from 0, increasing
  int outputs = 0;
  Problem problem = Problem::classification;
  bool lte = false;
  bool ramp = false;  // the last layer's untrained ramp answers if the rule exits there, instead of the final head
  const float* logit_thresholds = nullptr;  // OutputSpec::threshold_data(); they outlive every policy bound to them
};

struct Policy {
  Rule rule = rule_of<FullRule>;
  int count = 0;                              // evaluated exits; the last of them always answers
  int classes = 0;                            // outputs of an exit
  int state_floats = 0;                       // per text, moves with it, all zero at its start; `memory` included
  int memory = -1;                            // offset of the previous probabilities in the state; -1 = not needed
  bool ramp = false;                          // the last layer's ramp is asked before the last exit
  Problem problem = Problem::classification;  // as ExitSites has it, and the thresholds
  const float* logit_thresholds = nullptr;
  float params[kMaxParams] = {};
  int site[kMaxExits] = {};           // [count] which of the model's exits is evaluated nth
  int nth[kMaxExits] = {};            // [exits of the model] the reverse; -1 = not evaluated
  float exit_value[kMaxExits] = {};   // [count] threshold or weight
  float temperature[kMaxExits] = {};  // [count]
};

// Binds a policy to a model's exits, or throws Error (usage) saying why they do not fit.
[[nodiscard]] Policy bind(const PolicySpec& spec, const ExitSites& sites);

// Why a rule that decides text by text saves nothing on a model of so many exits; empty if texts can leave early.
[[nodiscard]] std::string never_early(const PolicySpec& spec, size_t model_exits);

// The most state of any policy of a model: its rule's, and the probabilities of the exit before.
[[nodiscard]] constexpr int max_state_floats(int exits, int classes) {
  return max_rule_state(exits) + memory_floats(classes);
}
// What a rule keeps of a text. A rule that wants more than max_rule_state() is a bug: a failed check().
[[nodiscard]] int rule_state(const RuleInfo& rule, const float* params, int exits);

// Checks a spec on its own: parameters within their ranges and in agreement. Throws Error (usage).
void check_spec(const PolicySpec& spec);

// What a text does at an exit.
enum class Step : uint8_t {
  stay,
  leave,          // the rule exits
  leave_by_ramp,  // the rule lets the last layer's ramp answer
  last            // the rule does not exit, but there is no further exit
};

// Is the last layer's ramp asked at the nth evaluated exit?
EXEUNT_HOST_DEVICE inline bool asks_ramp(const Policy& policy, int nth) noexcept {
  return policy.ramp && nth + 1 == policy.count;
}

// `step` for a rule known at compile time.
template <class R>
EXEUNT_HOST_DEVICE inline Step step_by(const Policy& policy, int nth, const Evidence& exit, const Evidence* ramp,
                                       float* state) noexcept {
  const bool by_ramp = asks_ramp(policy, nth);
  if (R::leave({policy.params, policy.exit_value[nth], nth}, by_ramp ? *ramp : exit, state))
    return by_ramp ? Step::leave_by_ramp : Step::leave;
  return nth + 1 < policy.count ? Step::stay : Step::last;
}

namespace detail {

template <class... R>
EXEUNT_HOST_DEVICE inline Step step_by_any(RuleList<R...>, const Policy& policy, int nth, const Evidence& exit,
                                           const Evidence* ramp, float* state) noexcept {
  Step out = Step::stay;
  int place = 0;
  (void)((static_cast<int>(policy.rule) == place++ && (out = step_by<R>(policy, nth, exit, ramp, state), true)) || ...);
  return out;
}

}  // namespace detail

// What a text does at the nth evaluated exit, given that exit's evidence and, where asks_ramp(), the ramp's. `state` is
// the text's own. Every decision to leave, live or in replay, is made here.
EXEUNT_HOST_DEVICE inline Step step(const Policy& policy, int nth, const Evidence& exit, const Evidence* ramp,
                                    float* state) noexcept {
  return detail::step_by_any(Rules{}, policy, nth, exit, ramp, state);
}

// What an exit of a running model put out for one text.
struct ExitOutput {
  const float* logits;  // [classes]
  float lte = 0;
};

// The evidence of the nth evaluated exit, for `step` with the same state.
EXEUNT_HOST_DEVICE inline Evidence compute_evidence(const Policy& policy, int nth, const ExitOutput& output,
                                                    float* state) noexcept {
  const ExitLogits reading{output.logits, policy.classes, policy.temperature[nth],
                           output.lte,    policy.problem, policy.logit_thresholds};
  return compute_evidence(reading, policy.memory < 0 ? nullptr : state + policy.memory);
}

}  // namespace exeunt
