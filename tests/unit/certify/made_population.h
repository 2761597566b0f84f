// SPDX-License-Identifier: Apache-2.0
// A population made on purpose, whose true risks are known exactly, to draw calibration data from: a model of two
// exits, whose first is surer of some texts than of others and changes a known share of its answers on each kind.
#pragma once

#include <cmath>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "exeunt/base/parallel.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/policy/replay.h"

namespace exeunt {

// Texts of which the first exit is equally sure.
struct Kind {
  double share = 1;              // of all texts
  double changed = 0;            // share of them that the last exit answers otherwise
  int repeats = 1;               // how often each is asked
  int length = 10;               // in tokens, to group by
  std::optional<bool> yes = {};  // what full depth answers; none: either, as often
};

struct MadePopulation {
  std::vector<Kind> kinds;  // from the surest on; kinds of the same `level` are told apart by nothing an exit sees
  std::vector<int> level;   // of each kind, from 0

  // `texts` distinct texts, each as often as it is asked.
  [[nodiscard]] ExitTrace draw(size_t texts, uint64_t seed) const {
    ExitTrace trace;
    trace.exits = 2;
    trace.width = 2;
    trace.info.weights = std::string(64, 'a');
    trace.info.precision = "fp32";
    trace.info.labels = {"no", "yes"};
    trace.info.layers = {1, 2};
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> unit;
    for (size_t text = 0; text < texts; ++text) {
      double left = unit(random);
      size_t kind = 0;
      while (kind + 1 < kinds.size() && left >= kinds[kind].share) left -= kinds[kind++].share;
      float side = random() % 2 == 0 ? 1.0F : -1.0F;  // of the first exit, above 0 for "no"
      const bool changed = unit(random) < kinds[kind].changed;
      if (kinds[kind].yes) side = *kinds[kind].yes == changed ? 1 : -1;
      const uint64_t hash = random();
      for (int i = 0; i < kinds[kind].repeats; ++i) add(trace, kind, {side, changed, hash});
    }
    return trace;
  }

  // `requests` out of `texts` texts, each asked as often as its kind says: of every kind so many change as it says.
  [[nodiscard]] ExitTrace draw_requests(size_t requests, size_t texts, uint64_t seed) const {
    std::vector<double> weights;
    for (const Kind& kind : kinds) weights.push_back(kind.share * kind.repeats);
    std::discrete_distribution<size_t> of_kind(weights.begin(), weights.end());
    std::mt19937_64 random(seed);
    ExitTrace trace = draw(0, seed);
    for (size_t request = 0; request < requests; ++request) {
      const size_t kind = of_kind(random);
      const auto count = static_cast<size_t>(std::round(kinds[kind].share * static_cast<double>(texts)));
      const size_t text = random() % count;
      const bool changed = static_cast<double>(text) < kinds[kind].changed * static_cast<double>(count);
      add(trace, kind, {text % 3 == 0 ? 1.0F : -1.0F, changed, kind * texts + text});
    }
    return trace;
  }

  // The true risk of a policy, over texts or requests, of all kinds or of those that `counts`.
  [[nodiscard]] double risk(
      const PolicySpec& policy, CertifiedUnit unit = CertifiedUnit::texts,
      const std::function<bool(const Kind&)>& counts = [](const Kind&) { return true; }) const {
    double lost = 0, all = 0;
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!counts(kinds[kind])) continue;
      const double weight = kinds[kind].share * (unit == CertifiedUnit::requests ? kinds[kind].repeats : 1);
      all += weight;
      if (leaves_early(kind, policy)) lost += weight * kinds[kind].changed;
    }
    return all > 0 ? lost / all : 0;
  }

  // One text of a kind shows where it leaves.
  [[nodiscard]] bool leaves_early(size_t kind, const PolicySpec& policy) const {
    return replay(MadePopulation{{kinds[kind]}, {level[kind]}}.draw(1, 1), policy).exit[0] == 0;
  }

 private:
  struct Row {
    float side;  // of the first exit: 1 or -1
    bool changed;
    uint64_t hash;
  };
  void add(ExitTrace& trace, size_t kind, const Row& row) const {
    const float sure = 8.0F / static_cast<float>(std::pow(2, level[kind]));
    for (const float logit : {row.side * sure, 0.0F, (row.changed ? -row.side : row.side) * 9, 0.0F})
      trace.logits.push_back(logit);
    trace.gold.push_back(NAN);
    trace.lengths.push_back(kinds[kind].length);
    trace.index.push_back(static_cast<int64_t>(trace.rows++));
    trace.row_hash.push_back(row.hash);
  }
};

struct MadeCoverage {
  double violations = 0;  // share of draws for which `broken` holds
  double full_depth = 0;  // share of draws that certified nothing but full depth
};

// `calibrated(draw)` gives the policy that a draw ends with, `broken` says whether its promise is.
inline MadeCoverage cover_made(std::string_view name, int draws,
                               const std::function<std::vector<PolicySpec>(uint64_t)>& calibrated,
                               const std::function<bool(const std::vector<PolicySpec>&)>& broken) {
  std::vector<int> wrong(static_cast<size_t>(draws)), full(wrong.size());
  parallel_for(2, 2, [&](int64_t half) {
    for (auto draw = static_cast<size_t>(half); draw < wrong.size(); draw += 2) {
      const std::vector<PolicySpec> policies = calibrated(draw + 1);
      wrong[draw] = broken(policies) ? 1 : 0;
      full[draw] = policies.front().rule == rule_of<FullRule> ? 1 : 0;
    }
  });
  MadeCoverage out;
  for (size_t draw = 0; draw < wrong.size(); ++draw) {
    out.violations += wrong[draw] / static_cast<double>(draws);
    out.full_depth += full[draw] / static_cast<double>(draws);
  }
  std::cout << fmt::format("  {}: {} draws, {:.1f} % broken, {:.1f} % at full depth\n", name, draws,
                           100 * out.violations, 100 * out.full_depth);
  return out;
}

// delta, and three binomial standard errors on top.
inline double allowed_of(double delta, int draws) {
  return delta + 3 * std::sqrt(delta * (1 - delta) / draws);
}

}  // namespace exeunt
