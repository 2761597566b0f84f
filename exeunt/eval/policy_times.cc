// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/policy_times.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "exeunt/base/error.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

// A policy on its way through the rounds.
struct Runner {
  std::shared_ptr<const BoundPolicy> policy;
  std::vector<double> ms = {};  // of one text, for every round
  double average_layers = 0;
};

void run_once(Engine& engine, std::span<const Encoding> texts, size_t at_once, Runner& runner, bool counts) {
  int64_t layers = 0;
  const auto start = Clock::now();
  for (size_t first = 0; first < texts.size(); first += at_once) {
    const auto waiting = texts.subspan(first, std::min(at_once, texts.size() - first));
    for (const Answer& answer : engine.answer(waiting, {.policy = runner.policy})) layers += answer.layer;
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  runner.average_layers = static_cast<double>(layers) / static_cast<double>(texts.size());
  if (counts) runner.ms.push_back(ms / static_cast<double>(texts.size()));
}

Resolved resolved_for(const MeasureOptions& options, const Checkpoint& model) {
  return resolve(model, {.policy = "full",
                         .precision = precision_named(options.precision),
                         .max_length = options.max_length,
                         .engine = engine_traits(model, options.device)});
}

// How far a policy's speed-ups over full depth lie apart, from round to round.
double spread_of(const Runner& full, const Runner& runner) {
  std::vector<double> speedups(full.ms.size());
  std::transform(full.ms.begin(), full.ms.end(), runner.ms.begin(), speedups.begin(), std::divides<>());
  const auto [low, high] = std::minmax_element(speedups.begin(), speedups.end());
  return *high / *low - 1;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

PolicyTimes time_policies(Engine& engine, std::span<const Encoding> texts, std::span<const PolicySpec> policies,
                          const TimingPlan& plan) {
  if (texts.empty()) throw Error(Code::bad_file, "got no texts, want at least one to time");
  check(plan.at_once > 0, "at least one text at a time");
  std::vector<Runner> runners{{engine.bind(parse_policy("full"))}};
  for (const PolicySpec& policy : policies) runners.push_back({engine.bind(policy)});
  // Once without counting: memory and exit rates are then as in a long run.
  for (Runner& runner : runners) run_once(engine, texts, plan.at_once, runner, false);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                      plan.seconds * static_cast<double>(runners.size())));
  PolicyTimes out{.engine = engine.name(), .precision = std::string(name_of(engine.precision()))};
  out.threads = engine.threads();
  out.texts = texts.size();
  out.at_once = plan.at_once;
  // Every other round goes backwards, so that a drift of the clock rate favours neither end of the list.
  for (; out.rounds < kLeastRounds || Clock::now() < end; ++out.rounds) {
    for (Runner& runner : runners) run_once(engine, texts, plan.at_once, runner, true);
    std::reverse(runners.begin(), runners.end());
  }
  if (out.rounds % 2 == 1) std::reverse(runners.begin(), runners.end());
  const double full_ms = median(runners.front().ms), depth = engine.spec().layers;
  for (size_t i = 0; i < runners.size(); ++i) {
    const double ms = median(runners[i].ms);
    PolicyTime time{.policy = i == 0 ? "full" : str(policies[i - 1]), .ms = ms, .clock_speedup = full_ms / ms};
    time.average_layers = runners[i].average_layers;
    time.layers_speedup = depth / time.average_layers;
    out.spread = std::max(out.spread, spread_of(runners.front(), runners[i]));
    (i == 0 ? out.full : out.rows.emplace_back()) = std::move(time);
  }
  return out;
}

std::vector<Encoding> encoded_texts(const MeasureOptions& options, const Checkpoint& model, size_t most,
                                    const Observer& observer) {
  const Dataset data = data_for(options, model, observer);
  const auto tokenizer =
      load_tokenizer(options.tokenizer.empty() ? model.folder() : std::filesystem::path(options.tokenizer));
  const EncodeOptions encode{.max_length = resolved_for(options, model).max_length};
  const size_t rows = data.examples.size(), wanted = most == 0 ? rows : std::min(rows, most);
  std::vector<Encoding> texts;
  for (size_t i = 0; i < wanted; ++i) {
    const Example& example = data.examples[i * rows / wanted];
    texts.push_back(tokenizer->encode(example.text, example.pair, encode));
  }
  return texts;
}

PolicyTimes time_policies(const MeasureOptions& options, const Checkpoint& model, std::span<const PolicySpec> policies,
                          const TimingPlan& plan, const Observer& observer) {
  const std::vector<Encoding> texts = encoded_texts(options, model, plan.texts, observer);
  Engine engine(model,
                engine_options(resolved_for(options, model), {.device = options.device, .threads = options.threads}));
  return time_policies(engine, texts, policies, plan);
}

}  // namespace exeunt
