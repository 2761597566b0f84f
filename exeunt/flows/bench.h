// SPDX-License-Identifier: Apache-2.0
// How fast a model runs: random weights of a known shape, texts of given lengths, and their times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/model/profile.h"
#include "exeunt/runtime/engine.h"

namespace exeunt {

enum class BenchHeads : uint8_t {
  last,    // one exit at the end, which reads row 0
  every,   // one after each layer, which reads row 0
  reader,  // one after each layer, behind a reader of all rows
};
[[nodiscard]] std::optional<BenchHeads> bench_heads_named(std::string_view name) noexcept;

// A classifier with two labels and random weights. Its numbers mean nothing, its times are those of any such model.
[[nodiscard]] Checkpoint random_model(const ModelSpec& spec, BenchHeads heads);

// A policy that looks at every exit on the way and leaves for certain after `layer` (0: at the last exit alone), with
// the exit rates that go with it. Throws Error (usage) if there is no exit.
[[nodiscard]] std::shared_ptr<const AskPolicy> leave_at(const Engine& engine, int layer);

struct BenchPoint {
  int length = 128, batch = 1;
  int exit_at = 0;  // layer; 0 = the last
  double seconds = 1;
};

struct BenchTimes {
  double best_ms = 0, p50_ms = 0, p90_ms = 0;  // of a whole batch
  double cpu_ms = 0;  // least processor time of all threads, which other programs hardly change
  int runs = 0;
};
[[nodiscard]] BenchTimes time_texts(Engine& engine, const Ask& ask, const BenchPoint& point);
// The same for texts of these lengths, all of them submitted at once; times are of one text, on average.
[[nodiscard]] BenchTimes time_lengths(Engine& engine, const Ask& ask, std::span<const int> lengths, double seconds);

// Operations of one text by the cost rules of model/cost.h, the last layer counted in full.
[[nodiscard]] double nominal_operations(const Engine& engine, const BenchPoint& point);

// Times of the parts of a model over `lengths`, by differences of whole runs. `engine` runs with `options`.
struct ProfilePlan {
  EngineOptions engine = {};
  std::vector<int> lengths = {16, 32, 64, 128};
  double seconds = 0.5;  // for each time taken
};
[[nodiscard]] ProfileEntry measure_profile(const Checkpoint& model, const ProfilePlan& plan);

}  // namespace exeunt
