// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/backend.h"

#include <algorithm>
#include <new>

#include "exeunt/runtime/labels.h"

namespace exeunt {

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

Ended ended_at(const ExitLayout& exits, const Ask& ask, int site, bool leaves) noexcept {
  const int last = static_cast<int>(exits.sites.size()) - 1;
  const bool own = leaves || (site < last && ask.policy && site == ask.policy->bound.site[ask.policy->bound.count - 1]);
  return own ? Ended::policy : site == last ? Ended::last_exit : Ended::max_layers;
}

float decision_temperature(const Ask& ask, int site) noexcept {
  const bool scaled = ask.policy && !ask.policy->spec.temperature.empty();
  return scaled ? ask.policy->spec.temperature[static_cast<size_t>(site)] : 1.0F;
}

void complete(Answer& answer, const ExitLayout& exits, const Ask& ask) {
  const auto site = static_cast<size_t>(answer.exit);
  answer.layer = exits.sites[site].after;
  if (exits.problem == Problem::regression) return;
  const bool scaled = ask.policy && !ask.policy->spec.score_temperature.empty();
  const float temperature = scaled ? ask.policy->spec.score_temperature[site] : 1.0F;
  answer.probabilities.resize(answer.logits.size());
  probabilities(reading_of(exits, answer.logits.data(), temperature), answer.probabilities.data());
}

Answer failed_answer(const std::exception_ptr& why) {
  Answer out{.ended = Ended::failed};
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
