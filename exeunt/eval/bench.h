// SPDX-License-Identifier: Apache-2.0
// Benchmarks: models of a known shape with random weights, texts of given lengths, and their times.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/eval/policy_times.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/profile.h"

namespace exeunt {

enum class BenchHeads : uint8_t {
  last,    // one exit at the end, which reads row 0
  every,   // one after each layer, which reads row 0
  reader,  // one after each layer, after a reader of all rows
};
constexpr std::array<std::string_view, 3> names_of(BenchHeads) noexcept {
  return {"last", "every", "reader"};
}

// A classifier with two labels and random weights: its answers mean nothing, its times are those of any such model.
[[nodiscard]] Checkpoint random_model(const ModelSpec& spec, BenchHeads heads);

// A policy that evaluates every exit on the way and always exits after `layer` (0: at the last exit alone), with
// the exit rates that go with it. Throws Error (usage) if there is no exit.
[[nodiscard]] std::shared_ptr<const BoundPolicy> leave_at(const Engine& engine, int layer);

// A policy by which these texts exit in equal parts after each of the layers 1 to 2 · mean − 1: thresholds taken from
// their own entropies, as texts of an early-exit model exit at different layers. Throws Error (usage) if the model
// has no exits there, or predicts numbers.
[[nodiscard]] std::shared_ptr<const BoundPolicy> leave_evenly(Engine& engine, std::span<const Encoding> texts,
                                                              int mean);

struct BenchPoint {
  int length = 128, batch = 1;
  int exit_at = 0;    // layer; 0 = the last
  int exit_mean = 0;  // instead: leave_evenly() with this mean; 0 = no
  double seconds = 1;
};

struct BenchTimes {
  double best_ms = 0, p50_ms = 0, p90_ms = 0;  // of a whole batch
  double cpu_ms = 0;  // least processor time of all threads, which other programs hardly change
  int runs = 0;
};
[[nodiscard]] BenchTimes time_texts(Engine& engine, const Ask& ask, const BenchPoint& point);
// One pass: milliseconds of a text, of processor time on the CPU and by the clock on a GPU.
[[nodiscard]] double time_once(Engine& engine, const Ask& ask, std::span<const Encoding> texts);

// Times of the parts of a model over `lengths`, by differences of whole runs. `engine` runs with `options`.
struct ProfilePlan {
  EngineOptions engine = {};
  std::vector<int> lengths = {16, 32, 64, 128};
  double seconds = 0.5;  // for each time taken
};
[[nodiscard]] ProfileEntry measure_profile(const Checkpoint& model, const ProfilePlan& plan);

// What `exeunt bench` measures: every combination of the lists.
struct BenchPlan {
  std::string model = "bert-base";       // a model, or the name of a known shape
  std::optional<BenchHeads> heads = {};  // of a known shape; none: the last, or every one where `exit_at` names layers
  Device device = {};
  std::vector<Precision> precisions = {};  // empty = bf16 if the device supports it, else fp32
  std::optional<Precision> poolers = {};   // none: precision.json's, else as the engine has them
  std::vector<int> threads = {1}, lengths = {16, 32, 64, 128};
  std::vector<int> batches = {1};
  std::vector<int> exit_at = {};  // layers; empty = the last
  int exit_mean = 0;              // instead: leave_evenly() with this mean
  int pack_rows = 0;              // 0 = as the model runs
  double seconds = 1;             // for each figure
  ClsFirst cls_first = ClsFirst::automatic;
};

struct BenchRow {
  Precision precision = Precision::fp32;
  int threads = 1;
  BenchPoint point = {};
  BenchTimes times = {};
  double gops = 0, peak_share = 0;  // share 0: the peak is not known
  double average_layers = 0;        // after which the texts left
};

struct BenchRows {
  std::vector<BenchRow> rows = {};
  // Of the last engine that was built.
  std::string engine = {};
  double ready_ms = 0;
  int64_t weight_bytes = 0;
  uint64_t resident_bytes = 0;  // 0: unavailable
};

// Texts of random tokens, the same for equal lengths.
[[nodiscard]] std::vector<Encoding> random_texts(const ModelSpec& spec, std::span<const int> lengths);

// A model with heads, or a random one of a known shape. Throws Error.
[[nodiscard]] Checkpoint open_for_bench(const BenchPlan& plan);

[[nodiscard]] BenchRows bench_points(const Checkpoint& model, const BenchPlan& plan);

// Texts with the lengths of a trace, padded or not: one mean for each precision and number of threads.
[[nodiscard]] BenchRows bench_trace_lengths(const Checkpoint& model, const BenchPlan& plan, const std::string& trace,
                                            int pad_to);

// The texts of `data` under every policy, in turns, for each precision and number of threads; of the plan, also the
// seconds. Throws Error.
[[nodiscard]] std::vector<PolicyTimes> bench_policies(const Checkpoint& model, const BenchPlan& plan,
                                                      const MeasureOptions& data, std::span<const PolicySpec> policies,
                                                      const Observer& observer);

// Every kernel's times over the longest text of the plan, as a Chrome trace.
[[nodiscard]] std::string kernel_trace(const Checkpoint& model, const BenchPlan& plan);

// profile.json of the model, for predicted times and the size of packs. Throws Error (usage) of a model without a
// folder.
[[nodiscard]] std::filesystem::path write_profile(const Checkpoint& model, const BenchPlan& plan);

}  // namespace exeunt
