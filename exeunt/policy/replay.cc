// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/replay.h"

#include <algorithm>
#include <array>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

struct Table {
  const Evidence* evidence;  // [rows, stride]; the last of a row is the ramp's, if there is one
  size_t rows, stride;
};

// One rule over all rows; the rule is a type here, so that its function is inlined into the loop.
template <class R>
void leave_all(const Policy& policy, const Table& table, Departures& out) {
  std::array<float, max_rule_state(kMaxExits)> state;
  const int kept = rule_state(info_of(policy.rule), policy.params, policy.count);
  const Evidence* e = table.evidence;
  for (size_t row = 0; row < table.rows; ++row, e += table.stride) {
    std::fill_n(state.begin(), kept, 0.0F);
    int nth = 0;
    Step step = Step::stay;
    while ((step = step_by<R>(policy, nth, e[nth], e + nth + 1, state.data())) == Step::stay) ++nth;
    out.exit[row] = static_cast<uint8_t>(policy.site[nth]);
    if (policy.ramp) out.by_ramp[row] = step == Step::leave_by_ramp;
  }
}

using LeaveAll = void (*)(const Policy&, const Table&, Departures&);

template <class... R>
constexpr std::array<LeaveAll, sizeof...(R)> loops(RuleList<R...>) {
  return {&leave_all<R>...};
}

constexpr auto kLoops = loops(Rules{});

}  // namespace

Replayer::Replayer(const ExitTrace& trace, LastHead last) : trace_(trace), sites_(trace.sites()) {
  sites_.ramp = last == LastHead::ramp;
  if (sites_.ramp && trace.ramp.empty())
    throw Error(Code::usage, "the trace holds no ramp of the last layer", "omit --compat deebert-last-ramp");
}

void Replayer::weigh_all(const Policy& policy) {
  const auto count = static_cast<size_t>(policy.count);
  const std::vector<int> sites(policy.site, policy.site + count);
  const std::vector<float> temperature(policy.temperature, policy.temperature + count);
  const bool shift = policy.memory >= 0;
  if (sites == weighed_sites_ && temperature == weighed_temperature_ && (weighed_shift_ || !shift)) return;

  evidence_.clear();
  evidence_.reserve(trace_.rows * (count + (policy.ramp ? 1 : 0)));
  std::vector<float> memory(static_cast<size_t>(memory_floats(trace_.width)));
  for (size_t row = 0; row < trace_.rows; ++row) {
    std::fill(memory.begin(), memory.end(), 0.0F);
    float* kept = shift ? memory.data() : nullptr;
    std::vector<float> before_last;
    for (size_t n = 0; n < count; ++n) {
      if (asks_ramp(policy, static_cast<int>(n))) before_last = memory;  // the ramp is at the last exit
      evidence_.push_back(compute_evidence(
          trace_.exit_logits(trace_.at(row, sites[n]), temperature[n], trace_.lte_at(row, sites[n])), kept));
    }
    if (!policy.ramp) continue;
    const auto width = static_cast<size_t>(trace_.width);
    const ExitLogits reading = trace_.exit_logits(std::span(trace_.ramp).subspan(row * width, width),
                                                  temperature[count - 1], trace_.lte_at(row, sites[count - 1]));
    evidence_.push_back(compute_evidence(reading, shift ? before_last.data() : nullptr));
  }
  weighed_sites_ = sites;
  weighed_temperature_ = temperature;
  weighed_shift_ = shift;
}

Departures Replayer::run(const PolicySpec& spec) {
  const Policy policy = bind(spec, sites_);
  Departures out;
  out.exit.resize(trace_.rows);
  if (sites_.ramp) out.by_ramp.resize(trace_.rows);
  if (info_of(policy.rule).sole_layer(policy.params) != kEveryExit) {  // no choice, no evidence
    std::fill(out.exit.begin(), out.exit.end(), static_cast<uint8_t>(policy.site[0]));
    return out;
  }
  weigh_all(policy);
  const size_t stride = static_cast<size_t>(policy.count) + (policy.ramp ? 1 : 0);
  kLoops[static_cast<size_t>(policy.rule)](policy, {evidence_.data(), trace_.rows, stride}, out);
  return out;
}

std::span<const float> Replayer::answer(const Departures& departures, size_t row) const noexcept {
  if (!departures.by_ramp.empty() && departures.by_ramp[row]) {
    const auto width = static_cast<size_t>(trace_.width);
    return {trace_.ramp.data() + row * width, width};
  }
  return trace_.at(row, departures.exit[row]);
}

std::vector<float> Replayer::answers(const Departures& departures) const {
  std::vector<float> out;
  out.reserve(trace_.rows);
  for (size_t row = 0; row < trace_.rows; ++row) out.push_back(answer_of(trace_.info, answer(departures, row)));
  return out;
}

Departures replay(const ExitTrace& trace, const PolicySpec& spec, LastHead last) {
  return Replayer(trace, last).run(spec);
}

}  // namespace exeunt
