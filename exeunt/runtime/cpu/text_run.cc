// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/text_run.h"

#include <algorithm>
#include <utility>

#include "exeunt/base/error.h"

namespace exeunt {

// The deepest exit so far, and how the text ended.
struct TextRun::Best {
  Ended ended = Ended::last_exit;
  int site = -1;
  Evidence evidence = {};
  int layers_run = 0;
  std::vector<ExitDetail> details = {};
};

int deepest_exit(const ExitLayout& exits, int max_layers) noexcept {
  int deepest = -1;
  for (const ExitSite& site : exits.sites) {
    if (site.after <= max_layers) ++deepest;
  }
  return deepest;
}

bool first_row_pays(double leaves, int tokens, double cost) noexcept {
  return leaves * tokens > cost;
}

// Row 0 alone costs about as much as a block of rows, as the weights have to be read all the same. Tiles compute so
// much faster than memory brings weights that there it is as much as three blocks (measured on Sapphire Rapids).
double first_row_cost(const Kernels& kernels, Precision precision) noexcept {
  return (kernels.name == "amx" ? 3.0 : 1.25) * kernels.row_block(precision);
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

TextRun::TextRun(const TextGround& ground, Crew::Member& member)
    : model_(*ground.model),
      space_(ground.spaces[static_cast<size_t>(member.index())]),
      cls_first_(ground.cls_first),
      now_(ground.now),
      forward_(model_, ground.spaces, member),
      heads_(model_, space_, member) {}

TextRun::Plan TextRun::plan(const Ask& ask) const {
  const int last = static_cast<int>(model_.exits.sites.size()) - 1;
  const Policy* policy = ask.policy ? &ask.policy->bound : nullptr;
  const int stop = policy != nullptr ? policy->site[policy->count - 1] : last;
  return {.stop = std::min(stop, deepest_exit(model_.exits, ask.max_layers)), .note = ask.deadline != kNoDeadline};
}

int TextRun::site_after(int layer) const noexcept {
  const auto& sites = model_.exits.sites;
  for (size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].after == layer) return static_cast<int>(i);
  }
  return -1;
}

LayerRows TextRun::rows(bool ahead) const noexcept {
  if (ahead) return {.first = forward_.first_row(), .all = nullptr, .tokens = forward_.tokens()};
  return {.first = forward_.rows(), .all = forward_.rows(), .tokens = forward_.tokens()};
}

bool TextRun::runs_ahead(int site, const Ask& ask, const Plan& plan, int tokens) const noexcept {
  if (cls_first_ == ClsFirst::never || reads_all_rows(model_.exits, model_.exits.sites[static_cast<size_t>(site)]))
    return false;
  if (site == plan.stop || cls_first_ == ClsFirst::always) return true;
  const int nth = ask.policy ? ask.policy->bound.nth[site] : -1;
  if (nth < 0) return false;
  return first_row_pays(leaving_share(*ask.policy, nth), tokens, first_row_cost(*model_.kernels, model_.precision));
}

// Looks at one exit; says whether the policy lets the text leave there.
bool TextRun::look(int site, const LayerRows& rows, const Ask& ask, Best& best) {
  const Policy* policy = ask.policy ? &ask.policy->bound : nullptr;
  const int nth = policy != nullptr ? policy->nth[site] : -1;
  const int outputs = model_.exits.outputs;
  const ExitSite& exit = model_.exits.sites[static_cast<size_t>(site)];
  const float lte = heads_.run(exit, rows, space_.best);
  best.site = site;
  bool leaves = false;
  if (nth < 0) {
    const bool scaled = ask.policy && !ask.policy->spec.temperature.empty();
    const float temperature = scaled ? ask.policy->spec.temperature[static_cast<size_t>(site)] : 1.0F;
    best.evidence = weigh({space_.best, outputs, temperature, lte});
  } else {
    const bool by_ramp = asks_ramp(*policy, nth);
    if (by_ramp) std::copy_n(space_.state, policy->state_floats, space_.state_before);
    best.evidence = weigh(*policy, nth, {space_.best, lte}, space_.state);
    Evidence ramp;
    if (by_ramp) {  // it stands where the last exit stands: both are compared with the exit before
      std::copy_n(space_.state_before, policy->state_floats, space_.state);
      heads_.run_ramp(rows, space_.logits);
      ramp = weigh(*policy, nth, {space_.logits, lte}, space_.state);
    }
    const Step made = step(*policy, nth, best.evidence, &ramp, space_.state);
    leaves = made == Step::leave || made == Step::leave_by_ramp;
    if (made == Step::leave_by_ramp) {
      std::copy_n(space_.logits, outputs, space_.best);
      best.evidence = ramp;
    }
  }
  if (nth >= 0 && ask.policy->counts) {
    const auto at = static_cast<size_t>(nth);
    ask.policy->counts->reached[at].fetch_add(1, std::memory_order_relaxed);
    if (leaves) ask.policy->counts->left[at].fetch_add(1, std::memory_order_relaxed);
  }
  if (ask.details) {
    best.details.push_back({.exit = site,
                            .layer = exit.after,
                            .logits = std::vector<float>(space_.best, space_.best + outputs),
                            .evidence = best.evidence});
  }
  return leaves;
}

Answer TextRun::answer(const Encoding& text, const Ask& ask, const std::atomic<bool>& cancelled) {
  const Plan plan = this->plan(ask);
  const auto start = plan.note ? now_() : Clock::time_point{};
  const auto over = [&](Best& best) {
    if (cancelled.load(std::memory_order_relaxed)) best.ended = Ended::cancelled;
    if (plan.note && best.ended != Ended::cancelled) {
      // With an answer at hand, do not begin a layer that would not end in time.
      const auto now = now_();
      const auto need = best.site >= 0 ? (now - start) / best.layers_run : Clock::duration{0};
      if (ask.deadline - now <= need) best.ended = Ended::deadline;
    }
    return best.ended == Ended::cancelled || best.ended == Ended::deadline;
  };
  Best best;
  if (ask.details) best.details.reserve(model_.exits.sites.size());
  if (ask.policy) {
    check(static_cast<size_t>(ask.policy->bound.state_floats) <= space_.state_floats, "room for the policy's state");
    std::fill_n(space_.state, ask.policy->bound.state_floats, 0.0F);
  }
  if (over(best)) return finish(std::move(best), ask);
  forward_.embed(text);
  for (int layer = 0; !over(best); ++layer) {
    const int site = site_after(layer + 1);
    const bool judged =
        site >= 0 && (site == plan.stop || plan.note || (ask.policy && ask.policy->bound.nth[site] >= 0));
    const bool ahead = judged && runs_ahead(site, ask, plan, forward_.tokens());
    best.layers_run = layer + 1;
    if (ahead) {
      forward_.begin_layer(layer);
      forward_.run_first_row(layer);
    } else {
      forward_.run_layer(layer);
    }
    if (judged) {
      const bool leaves = look(site, rows(ahead), ask, best);
      if (leaves || site == plan.stop) {
        const int last = static_cast<int>(model_.exits.sites.size()) - 1;
        const bool own =
            leaves || (site < last && ask.policy && site == ask.policy->bound.site[ask.policy->bound.count - 1]);
        best.ended = own ? Ended::policy : site == last ? Ended::last_exit : Ended::max_layers;
        break;
      }
    }
    if (ahead && !over(best)) forward_.finish_layer(layer);
  }
  return finish(std::move(best), ask);
}

Answer TextRun::finish(Best&& best, const Ask& ask) const {
  Answer out{.ended = best.ended, .layers_run = best.layers_run, .tokens = forward_.tokens()};
  if (best.ended == Ended::cancelled || best.site < 0) return out;
  const auto outputs = static_cast<size_t>(model_.exits.outputs);
  out.exit = best.site;
  out.layer = model_.exits.sites[static_cast<size_t>(best.site)].after;
  out.evidence = best.evidence;
  out.logits.assign(space_.best, space_.best + outputs);
  out.details = std::move(best.details);
  if (model_.exits.problem == Problem::regression) return out;
  const bool scaled = ask.policy && !ask.policy->spec.score_temperature.empty();
  const float temperature = scaled ? ask.policy->spec.score_temperature[static_cast<size_t>(best.site)] : 1.0F;
  out.probabilities.resize(outputs);
  probabilities({out.logits.data(), model_.exits.outputs, temperature}, out.probabilities.data());
  return out;
}

Engine::FullPass TextRun::full_pass(const Encoding& text) {
  const int layers = model_.spec.layers, outputs = model_.exits.outputs;
  const size_t hidden = static_cast<size_t>(model_.spec.hidden);
  Engine::FullPass out;
  const auto keep_row = [&](const float* row) { out.row_0.insert(out.row_0.end(), row, row + hidden); };
  out.row_0.reserve((static_cast<size_t>(layers) + 1) * hidden);
  forward_.embed(text);
  keep_row(forward_.rows());
  for (int layer = 0; layer < layers; ++layer) {
    const int site = site_after(layer + 1);
    const bool reads_first = site >= 0 && !reads_all_rows(model_.exits, model_.exits.sites[static_cast<size_t>(site)]);
    const bool last = layer + 1 == layers;
    const bool ahead = reads_first && (cls_first_ == ClsFirst::always || (last && cls_first_ != ClsFirst::never));
    if (ahead) {
      forward_.begin_layer(layer);
      forward_.run_first_row(layer);
    } else {
      forward_.run_layer(layer);
    }
    const LayerRows seen = rows(ahead);
    keep_row(seen.first);
    if (site >= 0) {
      const float lte = heads_.run(model_.exits.sites[static_cast<size_t>(site)], seen, space_.logits);
      out.logits.insert(out.logits.end(), space_.logits, space_.logits + outputs);
      if (model_.exits.lte) out.lte.push_back(lte);
    }
    if (last && model_.exits.last_ramp) {
      heads_.run_ramp(seen, space_.logits);
      out.ramp.assign(space_.logits, space_.logits + outputs);
    }
    if (ahead && !last) forward_.finish_layer(layer);
  }
  return out;
}

std::vector<float> TextRun::layer_rows(const Encoding& text, int depth,
                                       const std::function<void(int, std::span<const float>)>& take) {
  forward_.embed(text);
  const size_t values = static_cast<size_t>(forward_.tokens()) * static_cast<size_t>(model_.spec.hidden);
  for (int layer = 0; layer < depth; ++layer) {
    forward_.run_layer(layer);
    take(layer + 1, {forward_.rows(), values});
  }
  if (depth < model_.spec.layers) return {};
  heads_.run(model_.exits.sites.back(), rows(false), space_.logits);
  return {space_.logits, space_.logits + model_.exits.outputs};
}

}  // namespace exeunt
