// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/shadow.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace exeunt::serve {
namespace {

constexpr size_t kMaxShadows = 16;  // at a time

}  // namespace

Shadow::Shadow(ServiceContext& context, ServedPolicies& policies, const ShadowOptions& options)
    : context_(context), policies_(policies), options_(options), watch_(policies.promised()) {}

void Shadow::sample(const std::shared_ptr<const ActiveRequest>& request, double fill) {
  if (options_.share <= 0 || policies_.tightened()) return;
  for (size_t i = 0; i < request->outcomes.size(); ++i) {
    const Ended ended = request->outcomes[i].answer.ended;
    if (ended != Ended::policy && ended != Ended::last_exit) continue;
    due_ += options_.share;
    if (due_ < 1) continue;
    due_ -= 1;
    if (running_ >= kMaxShadows || fill > 0.5) {
      ++skipped_;
    } else {
      run(request, i);
    }
  }
}

void Shadow::run(const std::shared_ptr<const ActiveRequest>& request, size_t nth) {
  ++running_;
  Ask ask;
  ask.policy = policies_.full();
  const auto make = [this, request, nth] {
    return encode_text(request->job, nth, context_.model, *context_.runner.tokenizer);
  };
  const auto done = [this, request, nth](Answer&& full) {
    const bool counts = full.exit >= 0 && full.ended != Ended::failed && full.ended != Ended::cancelled;
    const double lost = loss(request->outcomes[nth].answer, full);
    context_.hand_over([this, counts, lost] {
      --running_;
      if (counts) record(lost);
    });
  };
  try {
    (void)context_.runner.submit(make, ask, done);
  } catch (const std::exception&) {
    --running_;
    ++skipped_;
  }
}

double Shadow::loss(const Answer& early, const Answer& full) const {
  if (!context_.model.regression) return full.evidence.label == early.evidence.label ? 0 : 1;
  const double range = context_.model.range > 0 ? context_.model.range : 1;
  return std::min(1.0, std::abs(static_cast<double>(full.evidence.value - early.evidence.value)) / range);
}

void Shadow::record(double loss) {
  watch_.record(loss);
  if (const bool before = std::exchange(alarm_, watch_.alarm()); before || !alarm_) return;
  if (options_.tighten_on_alarm) policies_.tighten();
  context_.log({.level = "warn",
                .message = "the policy no longer keeps its promise on these texts",
                .fields = {{"agreement", fmt::format("{:.4f}", watch_.agreement())},
                           {"texts", fmt::format("{}", watch_.texts())},
                           {"action", options_.tighten_on_alarm ? "full depth from now on" : "none"}}});
}

void Shadow::report(Metrics::Now& now) const {
  now.shadows = watch_.texts();
  now.disagreements = watch_.disagreements();
  now.shadows_skipped = skipped_;
  now.agreement = watch_.agreement();
  now.alarm = alarm_;
}

}  // namespace exeunt::serve
