// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/backend.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace exeunt {
namespace {

// Of a site that the policy does not evaluate.
float decision_temperature(const Ask& ask, int site) noexcept {
  const bool scaled = ask.policy && !ask.policy->spec.temperature.empty();
  return scaled ? ask.policy->spec.temperature[static_cast<size_t>(site)] : 1.0F;
}

}  // namespace

void check_text(const ModelSpec& spec, std::span<const int32_t> ids, std::span<const uint8_t> types) {
  check(types.size() == ids.size(), "as many types as ids");
  if (ids.empty()) throw Error(Code::bad_file, "text: got no tokens, want at least one");
  if (ids.size() > static_cast<size_t>(spec.max_tokens())) {
    throw Error(Code::bad_file,
                fmt::format("text: got {} tokens, the model takes at most {}", ids.size(), spec.max_tokens()),
                "shorten the texts with a smaller maximum length");
  }
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= spec.vocab) {
      throw Error(Code::bad_file, fmt::format("text: token {}: got id {}, want 0 to {}", t + 1, ids[t], spec.vocab - 1),
                  "the tokenizer does not belong to this model");
    }
    if (spec.segments > 0 && types[t] >= spec.segments) {
      throw Error(Code::bad_file,
                  fmt::format("text: token {}: got type {}, want 0 to {}", t + 1, types[t], spec.segments - 1),
                  "the tokenizer does not belong to this model");
    }
  }
}

size_t distinct_layers(const ModelSpec& spec) {
  int last = -1;
  for (int i = 0; i < spec.layers; ++i) last = std::max(last, spec.weights_of(i));
  return static_cast<size_t>(last + 1);
}

void check_finite(const std::string& tensor, std::span<const float> values, size_t first) {
  const auto is_bad = [](float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000U) == 0x7f800000U; };
  uint32_t any = 0;  // without branches, so that the loop runs at memory speed
  for (const float value : values) any |= static_cast<uint32_t>(is_bad(value));
  if (any == 0) return;
  const auto bad = std::find_if(values.begin(), values.end(), is_bad);
  throw Error(Code::bad_file,
              fmt::format("tensor '{}': element {}: got {}, want a finite number", tensor,
                          first + static_cast<size_t>(bad - values.begin()), *bad),
              "the weights are broken: train or download the model again");
}

int site_after(const ExitLayout& exits, int layer) noexcept {
  for (size_t i = 0; i < exits.sites.size(); ++i) {
    if (exits.sites[i].after == layer) return static_cast<int>(i);
  }
  return -1;
}

int deepest_exit(const ExitLayout& exits, int max_layers) noexcept {
  int deepest = -1;
  for (const ExitSite& site : exits.sites) {
    if (site.after <= max_layers) ++deepest;
  }
  return deepest;
}

int stop_site(const ExitLayout& exits, const Ask& ask) noexcept {
  const int deepest = deepest_exit(exits, ask.max_layers);
  if (!ask.policy) return deepest;
  const Policy& policy = ask.policy->bound;
  return std::min(deepest, static_cast<int>(policy.site[policy.count - 1]));
}

bool evaluates_exit(const Ask& ask, int site, int stop) noexcept {
  return site == stop || ask.deadline != kNoDeadline || (ask.policy && ask.policy->bound.nth[site] >= 0);
}

StopReason stop_reason_at(const ExitLayout& exits, const Ask& ask, int site, bool leaves) noexcept {
  const int last = static_cast<int>(exits.sites.size()) - 1;
  const bool own = leaves || (site < last && ask.policy && site == ask.policy->bound.site[ask.policy->bound.count - 1]);
  return own ? StopReason::policy : site == last ? StopReason::last_exit : StopReason::max_layers;
}

ExitEvaluator::ExitEvaluator(const ExitLayout& exits, const Ask& ask) : exits_(exits), ask_(ask) {
  logits_.resize(static_cast<size_t>(exits.outputs));
  if (ask.details) details_.reserve(exits.sites.size());
  if (!ask.policy) return;
  state_.resize(static_cast<size_t>(ask.policy->bound.state_floats));
  state_before_.resize(state_.size());
}

bool ExitEvaluator::evaluate(const Exit& exit, const Ramp& ramp) {
  const Policy* policy = ask_.policy ? &ask_.policy->bound : nullptr;
  const int nth = policy != nullptr ? policy->nth[exit.site] : -1;
  if (exit.logits != logits_.data()) std::copy_n(exit.logits, exits_.outputs, logits_.begin());
  site_ = exit.site;
  bool leaves = false;
  if (nth < 0) {
    evidence_ = compute_evidence(exits_.exit_logits(logits_, decision_temperature(ask_, exit.site), exit.lte));
  } else {
    const bool by_ramp = asks_ramp(*policy, nth);
    if (by_ramp) state_before_ = state_;
    evidence_ = compute_evidence(*policy, nth, {exit.logits, exit.lte}, state_.data());
    const float* others = nullptr;
    Evidence of_ramp;
    if (by_ramp) {  // it is in the place of the last exit: both are compared with the exit before
      state_ = state_before_;
      others = ramp();
      of_ramp = compute_evidence(*policy, nth, {others, exit.lte}, state_.data());
    }
    const Step made = step(*policy, nth, evidence_, &of_ramp, state_.data());
    leaves = made == Step::leave || made == Step::leave_by_ramp;
    if (made == Step::leave_by_ramp) {
      std::copy_n(others, exits_.outputs, logits_.begin());
      evidence_ = of_ramp;
    }
    if (ask_.policy->counts) {
      const auto at = static_cast<size_t>(nth);
      ask_.policy->counts->reached[at].fetch_add(1, std::memory_order_relaxed);
      if (leaves) ask_.policy->counts->left[at].fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (ask_.details) {
    const int layer = exits_.sites[static_cast<size_t>(exit.site)].after;
    details_.push_back({.exit = exit.site, .layer = layer, .logits = logits_, .evidence = evidence_});
  }
  return leaves;
}

void ExitEvaluator::answer(Answer& out) {
  const auto site = static_cast<size_t>(site_);
  out.exit = site_;
  out.layer = exits_.sites[site].after;
  out.evidence = evidence_;
  out.logits = std::move(logits_);
  out.details = std::move(details_);
  if (exits_.problem == Problem::regression) return;
  const bool scaled = ask_.policy && !ask_.policy->spec.score_temperature.empty();
  const float temperature = scaled ? ask_.policy->spec.score_temperature[site] : 1.0F;
  out.probabilities.resize(out.logits.size());
  probabilities(exits_.exit_logits(out.logits, temperature), out.probabilities.data());
}

Answer failed_answer(const std::exception_ptr& why) {
  Answer out{.stop_reason = StopReason::failed};
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    out.error = error.what();
    out.code = error.code();
  } catch (const std::bad_alloc&) {
    out.error = "out of memory";
    out.code = Code::resources;
  } catch (const std::exception& error) {
    out.error = error.what();
  } catch (...) {
    out.error = "unknown failure";
  }
  return out;
}

}  // namespace exeunt
