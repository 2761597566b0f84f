// SPDX-License-Identifier: Apache-2.0
// Any model, any texts, any policy: what the reference answers when it stops where the policy says is what a replay of
// its full-depth trace says. Live, a text runs no layer beyond the exit that is asked.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/reference/reference.h"
#include "tests/unit/engine/replay_property.h"

namespace exeunt {
namespace {

ExitTrace full_depth(const Reference& reference, std::span<const Encoding> texts) {
  ExitTrace trace = empty_trace(reference.exits(), texts.size());
  for (const Encoding& text : texts) {
    const ReferenceTrace out = reference.trace(text);
    trace.logits.insert(trace.logits.end(), out.logits.begin(), out.logits.end());
    trace.lte.insert(trace.lte.end(), out.lte.begin(), out.lte.end());
    trace.lengths.push_back(static_cast<int32_t>(text.ids.size()));
  }
  return trace;
}

LiveAnswer answer_live(const Reference& reference, const Encoding& text, const Policy& policy) {
  std::vector<float> state(static_cast<size_t>(policy.state_floats));
  for (int nth = 0;; ++nth) {
    const int site = policy.site[nth];
    const int after = reference.exits().sites[static_cast<size_t>(site)].after;
    const ReferenceOutput out = reference.run(text, {.keep_rows = false, .max_layers = after});
    const ReferenceExit& exit = out.exits.at(static_cast<size_t>(site));
    const Evidence evidence = compute_evidence(policy, nth, {exit.logits.data(), exit.lte.value_or(0)}, state.data());
    if (step(policy, nth, evidence, nullptr, state.data()) != Step::stay) return {site, exit.logits};
  }
}

LiveSystem system_of(const Reference& reference) {
  return {[&](std::span<const Encoding> texts) { return full_depth(reference, texts); },
          [&](std::span<const Encoding> texts, const PolicySpec& spec) {
            const Policy policy = bind(spec, exit_sites(reference.exits()));
            std::vector<LiveAnswer> answers;
            for (const Encoding& text : texts) answers.push_back(answer_live(reference, text, policy));
            return answers;
          }};
}

RC_GTEST_PROP(AnyModel, ReplayMatchesLiveAnswers, ()) {
  const ModelSpec spec = arbitrary_spec();
  const Reference reference(make_model(spec, arbitrary_exits(spec), {}, pick(0U, 1000U)));
  replay_equals_live(system_of(reference), spec);
}

// The law can be broken: a system that answers one exit later is found out.
TEST(ReplayEqualsLive, DetectsSystemThatExitsLate) {
  const auto broken = rc::detail::checkTestable([] {
    ModelSpec spec = small_spec();
    const Reference reference(make_model(spec, own_exits(spec)));
    LiveSystem late = system_of(reference);
    late.answer = [&, right = late.answer](std::span<const Encoding> texts, const PolicySpec& policy) {
      std::vector<LiveAnswer> answers = right(texts, policy);
      for (LiveAnswer& answer : answers) answer.exit = std::min(answer.exit + 1, spec.layers - 1);
      return answers;
    };
    replay_equals_live(late, spec);
  });
  EXPECT_TRUE(broken.template is<rc::detail::FailureResult>());
}

}  // namespace
}  // namespace exeunt
