// SPDX-License-Identifier: Apache-2.0
// Replay: 1,000 settings of each rule over a trace of 10,000 texts, 12 exits and 3 classes. One iteration is the whole
// sweep, evidence included, on one core.
#include <random>

#include <benchmark/benchmark.h>

#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

// Logits that become more confident with depth, like a trained model's.
ExitTrace make_trace(size_t rows, int exits, int classes) {
  ExitTrace trace;
  trace.rows = rows;
  trace.exits = exits;
  trace.width = classes;
  for (int exit = 1; exit <= exits; ++exit) trace.info.layers.push_back(exit);
  std::mt19937 random(1);
  std::normal_distribution<float> noise;
  for (size_t row = 0; row < rows; ++row) {
    const auto label = static_cast<int>(random() % static_cast<unsigned>(classes));
    const float ease = std::exp(noise(random));
    for (int exit = 1; exit <= exits; ++exit)
      for (int c = 0; c < classes; ++c)
        trace.logits.push_back(noise(random) + (c == label ? ease * static_cast<float>(exit) / 3 : 0));
  }
  trace.gold.resize(rows);
  trace.index.resize(rows);
  trace.lte.assign(rows * static_cast<size_t>(exits), 0.5F);
  return trace;
}

void sweep(benchmark::State& state, const char* text) {
  static const ExitTrace trace = make_trace(10'000, 12, 3);
  const std::vector<PolicySpec> policies = parse_sweep(text);
  for (auto _ : state) {
    Replayer replayer(trace);
    for (const PolicySpec& policy : policies) benchmark::DoNotOptimize(replayer.run(policy).exit.data());
  }
  state.counters["settings"] = static_cast<double>(policies.size());
}

BENCHMARK_CAPTURE(sweep, entropy, "entropy:0.001..1/0.001")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, never, "entropy:0..0.0000999/0.0000001")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, confidence, "confidence:0.001..1/0.001")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, patience, "patience:1..1000")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, window, "window:0.01..0.5/0.01,3..7,bias_1|bias_2,margin=0|0.1")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, window_range, "window:0.01..0.5/0.01,3..6,bias_3,range=0.1..0.5/0.1")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, divergence, "divergence:0.001..0.25/0.001,1..4")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, vote, "vote:0.01..10/0.01")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace exeunt

BENCHMARK_MAIN();
