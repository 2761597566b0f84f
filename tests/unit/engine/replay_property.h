// SPDX-License-Identifier: Apache-2.0
// "Replay of a trace equals what happens live", for anything that runs models: hand in its trace and its live answers.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <rapidcheck.h>

#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"
#include "tests/unit/engine/arbitrary_model.h"

namespace exeunt {

struct LiveAnswer {
  int exit = 0;  // which of the model's exits answered, from 0
  std::vector<float> logits = {};
};

// What runs one model. Both functions get the same texts; `answer` steps the policy exit by exit.
struct LiveSystem {
  std::function<ExitTrace(std::span<const Encoding>)> trace;
  std::function<std::vector<LiveAnswer>(std::span<const Encoding>, const PolicySpec&)> answer;
};

// What only the model knows of its trace; a system fills in logits and lte.
inline ExitTrace empty_trace(const ExitLayout& layout, size_t rows) {
  ExitTrace trace;
  trace.rows = rows;
  trace.exits = static_cast<int>(layout.sites.size());
  trace.width = layout.outputs;
  trace.info.labels = layout.labels;
  trace.info.problem = layout.problem;
  trace.info.layers = exit_sites(layout).layers;
  trace.gold.assign(rows, NAN);
  for (size_t row = 0; row < rows; ++row) trace.index.push_back(static_cast<int64_t>(row));
  return trace;
}

// A threshold that matters: one that some text at some exit meets exactly, or anything between 0 and `high`.
inline float arbitrary_threshold(const ExitTrace& trace, float high, float Evidence::*member) {
  if (pick(0, 2) == 0) return high * static_cast<float>(pick(0, 1001)) / 1000;
  const size_t row = pick<size_t>(0, trace.rows);
  const int exit = pick(0, trace.exits);
  const Evidence met =
      compute_evidence(ExitLogits{trace.at(row, exit).data(), trace.width, 1, trace.lte_at(row, exit)});
  return std::clamp(met.*member, 0.0F, high);
}

inline PolicySpec arbitrary_rule(const ExitTrace& trace) {
  const auto text = [](const std::string& policy) { return parse_policy(policy); };
  const auto with = [&](const std::string& policy, float threshold) {
    PolicySpec spec = text(policy);
    spec.params[0] = threshold;
    return spec;
  };
  const int patience = pick(1, 4);
  const float entropy_high = std::log(static_cast<float>(std::max(2, trace.width)));
  const int kinds = trace.info.problem == Problem::regression ? 3 : 12;
  const int kind = pick(0, trace.lte.empty() ? kinds : kinds + 1);
  if (kind == kinds) return with("lte:0", arbitrary_threshold(trace, 1, &Evidence::lte));
  if (kind == 0) return text("full");
  if (kind == 1) return text(fmt::format("layer:{}", *rc::gen::elementOf(trace.info.layers)));
  if (trace.info.problem == Problem::regression) {
    return text(fmt::format("patience:{},tol={}", patience, static_cast<float>(pick(0, 300)) / 100));
  }
  switch (kind) {
    case 2:
      return text(fmt::format("patience:{}", patience));
    case 3:
      return with("entropy:0", arbitrary_threshold(trace, entropy_high, &Evidence::entropy));
    case 4:
      return with("nentropy:0", arbitrary_threshold(trace, 1, &Evidence::nentropy));
    case 5:
      return with("confidence:0", arbitrary_threshold(trace, 1, &Evidence::confidence));
    case 6:
      return with("margin:0", arbitrary_threshold(trace, 1, &Evidence::margin));
    case 7:
      return with(fmt::format("pcee:0,{}", patience), arbitrary_threshold(trace, 1, &Evidence::nentropy));
    case 8:
      return with(fmt::format("divergence:0,{}", patience), static_cast<float>(pick(0, 700)) / 1000);
    case 9:
      return with("vote:0", static_cast<float>(pick(0, 400)) / 100);
    case 10:
      return with(fmt::format("window:0,{},{}", patience, *rc::gen::element("bias_1", "bias_2", "bias_3,range=0.1")),
                  arbitrary_threshold(trace, 1, &Evidence::nentropy));
    default: {
      PolicySpec spec = text("entropy:0");  // a threshold for each exit; the caller evaluates them all
      for (int exit = 0; exit < trace.exits; ++exit)
        spec.per_exit.push_back(arbitrary_threshold(trace, entropy_high, &Evidence::entropy));
      if (spec.per_exit.size() == 1) spec.per_exit.clear();
      return spec;
    }
  }
}

// A rule, some of the exits, and temperatures: all that a policy can be.
inline PolicySpec arbitrary_policy(const ExitTrace& trace) {
  PolicySpec spec = arbitrary_rule(trace);
  if (spec.per_exit.empty() && pick(0, 2) == 0) {
    for (const int layer : trace.info.layers)
      if (layer == trace.info.layers.back() || pick(0, 2) == 0) spec.exits.push_back(layer);
  }
  if (trace.info.problem != Problem::regression && pick(0, 2) == 0)
    for (int exit = 0; exit < trace.exits; ++exit)
      spec.temperature.push_back(*rc::gen::element(0.25F, 0.5F, 1.0F, 1.7F, 4.0F));
  return spec;
}

// The law: for any texts and policies, both say the same exit and the same logits, bit for bit.
inline void replay_equals_live(const LiveSystem& system, const ModelSpec& spec) {
  std::vector<Encoding> texts;
  for (int count = pick(1, 6); count > 0; --count) texts.push_back(arbitrary_text(spec));
  const ExitTrace trace = system.trace(texts);
  RC_ASSERT(trace.rows == texts.size());
  Replayer replayer(trace);
  for (int tries = 0; tries < 3; ++tries) {
    const PolicySpec policy = arbitrary_policy(trace);
    const Departures departures = replayer.run(policy);
    const std::vector<LiveAnswer> live = system.answer(texts, policy);
    RC_ASSERT(live.size() == texts.size());
    for (size_t row = 0; row < texts.size(); ++row) {
      const std::span<const float> replayed = replayer.answer(departures, row);
      RC_LOG() << str(policy) << ", row " << row << "\n";
      RC_ASSERT(live[row].exit == static_cast<int>(departures.exit[row]));
      RC_ASSERT(live[row].logits == std::vector<float>(replayed.begin(), replayed.end()));
    }
  }
}

}  // namespace exeunt
