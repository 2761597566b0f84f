// SPDX-License-Identifier: Apache-2.0
// What must hold for any logits: a bolder setting never leaves later, and what should not matter does not.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/policy/pick.h"
#include "tests/unit/policy/walk.h"

namespace exeunt {
namespace {

// Logits on a grid of eighths, small enough that ties, agreements and every threshold are hit often; sums are exact.
Logits arbitrary_logits(int classes) {
  const int exits = pick(1, 13);
  Logits logits;
  for (int i = 0; i < exits; ++i) {
    logits.emplace_back();
    for (int c = 0; c < classes; ++c) logits.back().push_back(static_cast<float>(pick(-32, 33)) / 8);
  }
  return logits;
}

float arbitrary_threshold() {
  return static_cast<float>(pick(0, 101)) / 100;
}

PolicySpec spec_of(Rule rule, std::vector<float> params) {
  PolicySpec spec;
  spec.rule = rule;
  const RuleInfo& info = info_of(rule);
  for (size_t i = 0; i < info.params.size(); ++i) spec.params[i] = info.params[i].absent;
  std::copy(params.begin(), params.end(), spec.params.begin());
  return spec;
}

int leave(const PolicySpec& spec, const Logits& logits, const std::vector<float>& lte = {}) {
  return walk(bind(spec, sites_for(logits, !lte.empty())), logits, lte);
}

RC_GTEST_PROP(Monotone, LargerEntropyThresholdNeverLeavesLater, ()) {
  const Logits logits = arbitrary_logits(pick(2, 6));
  const float a = arbitrary_threshold(), b = arbitrary_threshold();
  for (const Rule rule : {rule_of<EntropyRule>, rule_of<NentropyRule>})
    RC_ASSERT(leave(spec_of(rule, {std::max(a, b)}), logits) <= leave(spec_of(rule, {std::min(a, b)}), logits));
}

RC_GTEST_PROP(Monotone, SmallerConfidenceOrMarginNeverLeavesLater, ()) {
  const Logits logits = arbitrary_logits(pick(2, 6));
  const float a = arbitrary_threshold(), b = arbitrary_threshold();
  for (const Rule rule : {rule_of<ConfidenceRule>, rule_of<MarginRule>, rule_of<VoteRule>})
    RC_ASSERT(leave(spec_of(rule, {std::min(a, b)}), logits) <= leave(spec_of(rule, {std::max(a, b)}), logits));
}

RC_GTEST_PROP(Monotone, LessPatienceNeverLeavesLater, ()) {
  const Logits logits = arbitrary_logits(3);
  const float t = static_cast<float>(pick(1, 12));
  RC_ASSERT(leave(spec_of(rule_of<PatienceRule>, {t}), logits) <=
            leave(spec_of(rule_of<PatienceRule>, {t + 1}), logits));
  const float threshold = arbitrary_threshold();
  for (const Rule rule : {rule_of<PceeRule>, rule_of<DivergenceRule>})
    RC_ASSERT(leave(spec_of(rule, {threshold, t}), logits) <= leave(spec_of(rule, {threshold, t + 1}), logits));
}

RC_GTEST_PROP(Monotone, LargerToleranceNeverLeavesLater, ()) {
  const Logits numbers = arbitrary_logits(1);
  const float t = static_cast<float>(pick(1, 5));
  const float a = arbitrary_threshold() * 4, b = arbitrary_threshold() * 4;
  RC_ASSERT(leave(spec_of(rule_of<PatienceRule>, {t, std::max(a, b)}), numbers) <=
            leave(spec_of(rule_of<PatienceRule>, {t, std::min(a, b)}), numbers));
}

RC_GTEST_PROP(Monotone, CountingRulesFollowTheirThreshold, ()) {
  const Logits logits = arbitrary_logits(pick(2, 6));
  const float t = static_cast<float>(pick(1, 5));
  const float a = arbitrary_threshold(), b = arbitrary_threshold();
  for (const Rule rule : {rule_of<PceeRule>, rule_of<DivergenceRule>})
    RC_ASSERT(leave(spec_of(rule, {std::max(a, b), t}), logits) <= leave(spec_of(rule, {std::min(a, b), t}), logits));
}

RC_GTEST_PROP(Monotone, LargerLteThresholdNeverLeavesLater, ()) {
  const Logits logits = arbitrary_logits(2);
  std::vector<float> lte(logits.size());
  for (float& u : lte) u = arbitrary_threshold();
  const float a = arbitrary_threshold(), b = arbitrary_threshold();
  RC_ASSERT(leave(spec_of(rule_of<LteRule>, {std::max(a, b)}), logits, lte) <=
            leave(spec_of(rule_of<LteRule>, {std::min(a, b)}), logits, lte));
}

RC_GTEST_PROP(Window, StricterWindowsNeverLeaveEarlier, ()) {
  const Logits logits = arbitrary_logits(pick(2, 5));
  const float threshold = arbitrary_threshold() / 4, width = static_cast<float>(pick(1, 6));
  const float margin = arbitrary_threshold() / 2, range = arbitrary_threshold();
  const float stat = static_cast<float>(pick(0, 4));
  const auto at = [&](float t, float n, float mode, float m, float r) {
    return leave(spec_of(rule_of<WindowRule>, {t, n, mode, m, r, stat}), logits);
  };
  const int plain = at(threshold, width, WindowRule::bias_1, margin, -1);
  RC_ASSERT(plain <= at(threshold, width, WindowRule::bias_2, margin, -1));
  RC_ASSERT(plain <= at(threshold, width, WindowRule::bias_3, margin, range));
  RC_ASSERT(plain == at(threshold, width, WindowRule::bias_3, margin, 1));  // a range of 1 holds everything
  RC_ASSERT(plain <= at(threshold, width + 1, WindowRule::bias_1, margin, -1));
  RC_ASSERT(plain <= at(threshold / 2, width, WindowRule::bias_1, margin, -1));
  RC_ASSERT(plain >= at(threshold, width, WindowRule::bias_1, margin / 2, -1));
  RC_ASSERT(plain <= leave(spec_of(rule_of<NentropyRule>, {threshold}), logits));  // the first stage alone
}

// ELBERT's window straight from its description: look back over all values so far.
int window_by_definition(const std::vector<float>& x, size_t width, int mode, float margin, float range) {
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    if (i + 1 < width) continue;
    const std::vector<float> window(x.begin() + static_cast<long>(i + 1 - width), x.begin() + static_cast<long>(i + 1));
    const auto [low, high] = std::minmax_element(window.begin(), window.end());
    const bool below = *high<0.5F - margin, above = *low> 0.5F + margin;
    bool leaves = below || above;
    if (mode == 1) {
      leaves = (window[0] < 0.5F - margin && std::is_sorted(window.rbegin(), window.rend())) ||
               (window[0] > 0.5F + margin && std::is_sorted(window.begin(), window.end()));
    }
    if (mode == 2) leaves = leaves && *high - *low <= range;
    if (leaves) return static_cast<int>(i) + 1;
  }
  return static_cast<int>(x.size());
}

RC_GTEST_PROP(Window, EqualsItsDefinition, ()) {
  const Logits logits = arbitrary_logits(2);
  std::vector<float> x;
  for (const auto& z : logits) x.push_back(compute_evidence({z.data(), 2}).first);
  const int width = pick(1, 8), mode = pick(0, 3);
  const float margin = arbitrary_threshold() / 4, range = arbitrary_threshold() / 2;
  const PolicySpec spec = spec_of(rule_of<WindowRule>, {0, static_cast<float>(width), static_cast<float>(mode), margin,
                                                        mode == 2 ? range : -1, WindowRule::class0});
  RC_ASSERT(leave(spec, logits) == window_by_definition(x, static_cast<size_t>(width), mode, margin, range));
}

RC_GTEST_PROP(Window, Class0EqualsArgmaxConsistentForTwoClasses, ()) {
  const Logits logits = arbitrary_logits(2);
  const float width = static_cast<float>(pick(1, 6));
  for (const float mode : {0.0F, 1.0F}) {
    const auto at = [&](float stat) {
      return leave(spec_of(rule_of<WindowRule>, {0, width, mode, 0, -1, stat}), logits);
    };
    RC_ASSERT(at(WindowRule::class0) == at(WindowRule::argmax_consistent));
  }
}

RC_GTEST_PROP(Invariance, AddingAConstantToAllLogitsChangesNothing, ()) {
  const Logits logits = arbitrary_logits(3);
  const float constant = static_cast<float>(pick(-100, 101));
  Logits moved = logits;
  for (auto& z : moved)
    for (float& value : z) value += constant;
  for (const char* text : {"entropy:0.3", "nentropy:0.3", "confidence:0.8", "margin:0.3", "patience:2",
                           "window:0.1,3,bias_2", "pcee:0.4,2", "divergence:0.05,1", "vote:2"})
    RC_ASSERT(walk(text, logits) == walk(text, moved));
}

RC_GTEST_PROP(Invariance, PatienceIsInvariantToTemperature, ()) {
  const Logits logits = arbitrary_logits(3);
  PolicySpec spec = spec_of(rule_of<PatienceRule>, {static_cast<float>(pick(1, 6))});
  const int plain = leave(spec, logits);
  for (size_t i = 0; i < logits.size(); ++i) spec.temperature.push_back(arbitrary_threshold() + 0.1F);
  RC_ASSERT(plain == leave(spec, logits));
}

RC_GTEST_PROP(Invariance, FewerExitsNeverLeaveEarlier, ()) {
  const Logits logits = arbitrary_logits(3);
  PolicySpec spec = spec_of(rule_of<EntropyRule>, {arbitrary_threshold()});
  const int all = leave(spec, logits);
  for (int layer = 1; layer < static_cast<int>(logits.size()); ++layer)
    if (*rc::gen::arbitrary<bool>()) spec.exits.push_back(layer);
  spec.exits.push_back(static_cast<int>(logits.size()));
  RC_ASSERT(all <= leave(spec, logits));
}

RC_GTEST_PROP(Invariance, PatienceOfOneEqualsTheThresholdRule, ()) {
  const Logits logits = arbitrary_logits(3);
  const float threshold = arbitrary_threshold();
  RC_ASSERT(leave(spec_of(rule_of<PceeRule>, {threshold, 1}), logits) ==
            leave(spec_of(rule_of<NentropyRule>, {threshold}), logits));
}

}  // namespace
}  // namespace exeunt
