// SPDX-License-Identifier: Apache-2.0
// Walks one text through a policy the way an engine does: exit by exit, with its own state.
#pragma once

#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "exeunt/policy/policy.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {

using Logits = std::vector<std::vector<float>>;  // [exits][classes]

inline ExitSites sites_for(const Logits& logits, bool lte = false) {
  ExitSites sites;
  sites.layers.resize(logits.size());
  std::iota(sites.layers.begin(), sites.layers.end(), 1);
  sites.outputs = static_cast<int>(logits.front().size());
  if (sites.outputs == 1) sites.problem = Problem::regression;
  sites.lte = lte;
  return sites;
}

// The layer (from 1) after which the text leaves.
inline int walk(const Policy& policy, const Logits& logits, const std::vector<float>& lte = {}) {
  std::vector<float> state(static_cast<size_t>(policy.state_floats));
  for (int n = 0;; ++n) {
    const auto site = static_cast<size_t>(policy.site[n]);
    const ExitOutput output{logits[site].data(), lte.empty() ? 0.0F : lte[site]};
    const Evidence evidence = compute_evidence(policy, n, output, state.data());
    if (step(policy, n, evidence, nullptr, state.data()) != Step::stay) return policy.site[n] + 1;
  }
}

inline int walk(std::string_view text, const Logits& logits, const std::vector<float>& lte = {}) {
  return walk(bind(parse_policy(text), sites_for(logits, !lte.empty())), logits, lte);
}

// Two logits whose softmax gives `p` to class 0; a half comes out exactly.
inline std::vector<float> with_first(double p) {
  return {static_cast<float>(std::log(p / (1 - p))), 0.0F};
}

inline Logits firsts(const std::vector<double>& probabilities) {
  Logits logits;
  for (const double p : probabilities) logits.push_back(with_first(p));
  return logits;
}

// One exit per label, each sure of it.
inline Logits labels(const std::vector<int>& sequence, int classes = 2) {
  Logits logits;
  for (const int label : sequence) {
    logits.emplace_back(static_cast<size_t>(classes), 0.0F);
    logits.back()[static_cast<size_t>(label)] = 2;
  }
  return logits;
}

}  // namespace exeunt
