// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/text_run.h"

#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/engine/cpu/register_peak.h"
#include "exeunt/engine/formulas.h"

namespace exeunt {
namespace {

bool reads_first_row(const ExitLayout& exits, int site) {
  return site >= 0 && !reads_all_rows(exits, exits.sites[static_cast<size_t>(site)]);
}

}  // namespace

double leaving_share(const BoundPolicy& policy, int nth) noexcept {
  const int count = policy.bound.count;
  if (nth + 1 >= count) return 1;
  constexpr uint32_t kEnough = 64;  // from then on the stream itself says more than calibration did
  const auto at = static_cast<size_t>(nth);
  const uint32_t reached = policy.counts ? policy.counts->reached[at].load(std::memory_order_relaxed) : 0;
  if (reached >= kEnough) return static_cast<double>(policy.counts->left[at].load(std::memory_order_relaxed)) / reached;
  if (policy.exit_rates.size() != static_cast<size_t>(count)) return 1.0 / (count - nth);  // not known: all alike
  double there = 1;
  for (int n = 0; n < nth; ++n) there -= policy.exit_rates[static_cast<size_t>(n)];
  const double rate = policy.exit_rates[at];
  return there > rate ? rate / there : rate > 0 ? 1 : 0;
}

AnswerRun::AnswerRun(const PackedModel& model, const std::atomic<bool>& closing, AnswerJob job)
    : model_(model),
      closing_(closing),
      job_(std::move(job)),
      stop_(stop_site(model.exits, job_.ask)),
      evaluator_(model.exits, job_.ask) {}

bool AnswerRun::prepare() {
  if (closing_.load(std::memory_order_relaxed) || job_.cancelled->load(std::memory_order_relaxed)) {
    stop_reason_ = StopReason::cancelled;
    return false;
  }
  TextSource& source = job_.source;
  try {
    if (source.make) {
      source.own = source.make();
      check_text(model_.spec, source.own.ids, source.own.types);
      source.make = {};
    }
    return !leaves_at_exit_0();
  } catch (...) {
    fail(std::current_exception());
    return false;
  }
}

bool AnswerRun::leaves_at_exit_0() {
  // A text that did not fit into a pack comes here again.
  if (!model_.ngrams || evaluator_.site() >= 0 || !evaluates_exit(job_.ask, 0, stop_)) return false;
  tokens_ = static_cast<int>(text().ids.size());
  model_.ngrams->run(text().ids, evaluator_.logits());
  const bool leaves = evaluator_.evaluate({.site = 0, .logits = evaluator_.logits()}, {});
  if (!leaves && stop_ != 0) return false;
  stop_reason_ = stop_reason_at(model_.exits, job_.ask, 0, leaves);
  return true;
}

bool AnswerRun::over(Clock::time_point now) {
  if (job_.cancelled->load(std::memory_order_relaxed)) {
    stop_reason_ = StopReason::cancelled;
    return true;
  }
  if (job_.ask.deadline == kNoDeadline) return false;
  // With an answer at hand, do not begin a layer that would not end in time.
  const auto need = evaluator_.site() >= 0 && layers_run_ > 0 ? (now - start_) / layers_run_ : Clock::duration{0};
  if (job_.ask.deadline - now > need) return false;
  stop_reason_ = StopReason::deadline;
  return true;
}

ExitVisit AnswerRun::visit(int layer) {
  layers_run_ = layer;
  const int site = site_after(model_.exits, layer);
  if (site < 0 || !evaluates_exit(job_.ask, site, stop_)) return {};
  const int nth = job_.ask.policy ? job_.ask.policy->bound.nth[site] : -1;
  return {.site = site,
          .first_row = reads_first_row(model_.exits, site),
          .certain = site == stop_,
          .leaves = site == stop_ ? 1
                    : nth < 0     ? 0
                                  : leaving_share(*job_.ask.policy, nth)};
}

bool AnswerRun::after(const LayerEnd& end) {
  tokens_ = end.rows.tokens;
  if (end.site < 0) return false;
  const bool leaves = evaluator_.evaluate({.site = end.site, .logits = end.logits, .lte = end.lte}, [&end] {
    end.heads->run_ramp(end.rows, end.ramp);
    return end.ramp;
  });
  if (!leaves && end.site != stop_) return false;
  stop_reason_ = stop_reason_at(model_.exits, job_.ask, end.site, leaves);
  return true;
}

void AnswerRun::finish() {
  if (failure_) return job_.done(failed_answer(failure_));
  Answer out{.stop_reason = stop_reason_};
  out.layers_run = layers_run_;
  out.tokens = tokens_;
  if (stop_reason_ != StopReason::cancelled && evaluator_.site() >= 0) evaluator_.answer(out);
  job_.done(std::move(out));
}

bool PassRun::prepare() {
  if (begun_ > 0) return true;  // here again
  begun_ = thread_seconds();
  if (model_.ngrams && !request_->take) {
    out_.logits.resize(static_cast<size_t>(model_.exits.outputs));
    model_.ngrams->run(text_.ids, out_.logits.data());
  }
  return true;
}

ExitVisit PassRun::visit(int layer) {
  const bool last = layer == model_.spec.layers;
  if (request_->take) return {.site = last ? static_cast<int>(model_.exits.sites.size()) - 1 : -1};
  const int site = site_after(model_.exits, layer);
  return {.site = site, .first_row = reads_first_row(model_.exits, site), .certain = last, .leaves = last ? 1.0 : 0.0};
}

bool PassRun::after(const LayerEnd& end) {
  const auto hidden = static_cast<size_t>(model_.spec.hidden);
  if (request_->row_0) out_.row_0.insert(out_.row_0.end(), end.rows.first, end.rows.first + hidden);
  if (request_->take && end.layer > 0) {
    const size_t values = static_cast<size_t>(end.rows.tokens) * hidden;
    request_->take(index_, end.layer, {end.heads->as_read(end.rows), values});
  }
  if (end.site >= 0) {
    out_.logits.insert(out_.logits.end(), end.logits, end.logits + model_.exits.outputs);
    if (model_.exits.lte) out_.lte.push_back(end.lte);
  }
  if (end.layer == model_.spec.layers && model_.exits.last_ramp && !request_->take) {
    end.heads->run_ramp(end.rows, end.ramp);
    out_.ramp.assign(end.ramp, end.ramp + model_.exits.outputs);
  }
  return end.layer == request_->depth;
}

void PassRun::finish() {
  out_.processor_seconds = thread_seconds() - begun_;
  request_->done(index_, std::move(out_), failure_);
}

}  // namespace exeunt
