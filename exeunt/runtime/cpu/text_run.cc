// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/text_run.h"

#include <algorithm>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/runtime/check_text.h"
#include "exeunt/runtime/cpu/register_peak.h"
#include "exeunt/runtime/labels.h"

namespace exeunt {
namespace {

// The site after `layer`, from 1; -1: there is none.
int site_after(const ExitLayout& exits, int layer) noexcept {
  for (size_t i = 0; i < exits.sites.size(); ++i) {
    if (exits.sites[i].after == layer) return static_cast<int>(i);
  }
  return -1;
}

bool reads_first_row(const ExitLayout& exits, int site) {
  return site >= 0 && !reads_all_rows(exits, exits.sites[static_cast<size_t>(site)]);
}

}  // namespace

int deepest_exit(const ExitLayout& exits, int max_layers) noexcept {
  int deepest = -1;
  for (const ExitSite& site : exits.sites) {
    if (site.after <= max_layers) ++deepest;
  }
  return deepest;
}

double leaving_share(const AskPolicy& policy, int nth) noexcept {
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

AnswerRun::AnswerRun(Setting setting, TextSource source, const Ask& ask, Engine::Done done)
    : setting_(std::move(setting)),
      model_(*setting_.model),
      source_(std::move(source)),
      ask_(ask),
      done_(std::move(done)),
      stop_(deepest_exit(model_.exits, ask.max_layers)) {
  best_.logits.resize(static_cast<size_t>(model_.exits.outputs));
  if (ask_.details) best_.details.reserve(model_.exits.sites.size());
  if (!ask_.policy) return;
  const Policy& policy = ask_.policy->bound;
  stop_ = std::min(stop_, static_cast<int>(policy.site[policy.count - 1]));
  state_.resize(static_cast<size_t>(policy.state_floats));
  state_before_.resize(state_.size());
}

bool AnswerRun::prepare() {
  if (setting_.closing->load(std::memory_order_relaxed) || setting_.cancelled->load(std::memory_order_relaxed)) {
    best_.ended = Ended::cancelled;
    return false;
  }
  if (!source_.make) return true;
  try {
    source_.own = source_.make();
    check_text(model_.spec, source_.own.ids, source_.own.types);
    source_.make = {};
    return true;
  } catch (...) {
    fail(std::current_exception());
    return false;
  }
}

bool AnswerRun::over(Clock::time_point now) {
  if (setting_.cancelled->load(std::memory_order_relaxed)) {
    best_.ended = Ended::cancelled;
    return true;
  }
  if (ask_.deadline == kNoDeadline) return false;
  // With an answer at hand, do not begin a layer that would not end in time.
  const auto need = best_.site >= 0 ? (now - start_) / best_.layers_run : Clock::duration{0};
  if (ask_.deadline - now > need) return false;
  best_.ended = Ended::deadline;
  return true;
}

// A deadline makes every exit on the way an answer that may be needed.
ExitVisit AnswerRun::visit(int layer) {
  best_.layers_run = layer;
  const int site = site_after(model_.exits, layer);
  if (site < 0) return {};
  const int nth = ask_.policy ? ask_.policy->bound.nth[site] : -1;
  if (site != stop_ && ask_.deadline == kNoDeadline && nth < 0) return {};
  return {.site = site,
          .first_row = reads_first_row(model_.exits, site),
          .certain = site == stop_,
          .leaves = site == stop_ ? 1
                    : nth < 0     ? 0
                                  : leaving_share(*ask_.policy, nth)};
}

// Looks at one exit; says whether the policy lets the text leave there.
bool AnswerRun::look(const LayerEnd& end) {
  const Policy* policy = ask_.policy ? &ask_.policy->bound : nullptr;
  const int nth = policy != nullptr ? policy->nth[end.site] : -1;
  const int outputs = model_.exits.outputs;
  std::copy_n(end.logits, outputs, best_.logits.begin());
  best_.site = end.site;
  bool leaves = false;
  if (nth < 0) {
    const bool scaled = ask_.policy && !ask_.policy->spec.temperature.empty();
    const float temperature = scaled ? ask_.policy->spec.temperature[static_cast<size_t>(end.site)] : 1.0F;
    best_.evidence = weigh(reading_of(model_.exits, end.logits, temperature, end.lte));
  } else {
    const bool by_ramp = asks_ramp(*policy, nth);
    if (by_ramp) state_before_ = state_;
    best_.evidence = weigh(*policy, nth, {end.logits, end.lte}, state_.data());
    Evidence ramp;
    if (by_ramp) {  // it stands where the last exit stands: both are compared with the exit before
      state_ = state_before_;
      end.heads->run_ramp(end.rows, end.ramp);
      ramp = weigh(*policy, nth, {end.ramp, end.lte}, state_.data());
    }
    const Step made = step(*policy, nth, best_.evidence, &ramp, state_.data());
    leaves = made == Step::leave || made == Step::leave_by_ramp;
    if (made == Step::leave_by_ramp) {
      std::copy_n(end.ramp, outputs, best_.logits.begin());
      best_.evidence = ramp;
    }
  }
  if (nth >= 0 && ask_.policy->counts) {
    const auto at = static_cast<size_t>(nth);
    ask_.policy->counts->reached[at].fetch_add(1, std::memory_order_relaxed);
    if (leaves) ask_.policy->counts->left[at].fetch_add(1, std::memory_order_relaxed);
  }
  if (ask_.details) {
    best_.details.push_back({.exit = end.site, .layer = end.layer, .logits = best_.logits, .evidence = best_.evidence});
  }
  return leaves;
}

bool AnswerRun::after(const LayerEnd& end) {
  best_.tokens = end.rows.tokens;
  if (end.site < 0) return false;
  const bool leaves = look(end);
  if (!leaves && end.site != stop_) return false;
  const int last = static_cast<int>(model_.exits.sites.size()) - 1;
  const bool own =
      leaves || (end.site < last && ask_.policy && end.site == ask_.policy->bound.site[ask_.policy->bound.count - 1]);
  best_.ended = own ? Ended::policy : end.site == last ? Ended::last_exit : Ended::max_layers;
  return true;
}

void AnswerRun::fail(const std::exception_ptr& why) {
  best_.ended = Ended::failed;
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    error_ = error.what();
  } catch (...) {
    error_ = "unknown failure";
  }
}

void AnswerRun::finish() {
  Answer out{.ended = best_.ended};
  if (best_.ended == Ended::failed) {
    out.error = std::move(error_);
    return done_(std::move(out));
  }
  out.layers_run = best_.layers_run;
  out.tokens = best_.tokens;
  if (best_.ended != Ended::cancelled && best_.site >= 0) {
    const auto site = static_cast<size_t>(best_.site);
    out.exit = best_.site;
    out.layer = model_.exits.sites[site].after;
    out.evidence = best_.evidence;
    out.logits = std::move(best_.logits);
    out.details = std::move(best_.details);
    if (model_.exits.problem != Problem::regression) {
      const bool scaled = ask_.policy && !ask_.policy->spec.score_temperature.empty();
      const float temperature = scaled ? ask_.policy->spec.score_temperature[site] : 1.0F;
      out.probabilities.resize(out.logits.size());
      probabilities(reading_of(model_.exits, out.logits.data(), temperature), out.probabilities.data());
    }
  }
  done_(std::move(out));
}

bool FullRun::prepare() {
  begun_ = thread_seconds();
  return true;
}

ExitVisit FullRun::visit(int layer) {
  const int site = site_after(model_.exits, layer);
  const bool last = layer == model_.spec.layers;
  return {.site = site, .first_row = reads_first_row(model_.exits, site), .certain = last, .leaves = last ? 1.0 : 0.0};
}

bool FullRun::after(const LayerEnd& end) {
  const bool last = end.layer == model_.spec.layers;
  if (wants_.rows) out_.row_0.insert(out_.row_0.end(), end.rows.first, end.rows.first + model_.spec.hidden);
  if (end.site >= 0) {
    out_.logits.insert(out_.logits.end(), end.logits, end.logits + model_.exits.outputs);
    if (model_.exits.lte) out_.lte.push_back(end.lte);
  }
  if (last && model_.exits.last_ramp) {
    end.heads->run_ramp(end.rows, end.ramp);
    out_.ramp.assign(end.ramp, end.ramp + model_.exits.outputs);
  }
  return last;
}

void FullRun::finish() {
  out_.processor_seconds = thread_seconds() - begun_;
  done_(std::move(out_), failure_);
}

ExitVisit RowsRun::visit(int layer) {
  if (layer < model_.spec.layers) return {};
  return {.site = static_cast<int>(model_.exits.sites.size()) - 1};
}

bool RowsRun::after(const LayerEnd& end) {
  if (end.layer == 0) return false;
  const auto values = static_cast<size_t>(end.rows.tokens) * static_cast<size_t>(model_.spec.hidden);
  take_(end.layer, {end.rows.all, values});
  if (end.site >= 0) logits_.assign(end.logits, end.logits + model_.exits.outputs);
  return end.layer == depth_;
}

}  // namespace exeunt
