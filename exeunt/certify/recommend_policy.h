// SPDX-License-Identifier: Apache-2.0
// Several runs measured on the same rows, the policy to use for a speed or a loss, and how it gets into policy.json.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/certify/recommend.h"
#include "exeunt/eval/measure.h"

namespace exeunt {

struct RecommendOptions {
  std::vector<std::string> runs = {};  // models, folders of trainings, trace files
  MeasureOptions measure = {};         // how each of them is measured
  Goal goal = {};
  uint64_t seed = 42;
  bool apply = false;              // the policy will be written
  bool replace_certified = false;  // even without a certificate over one that has it
  std::string out = {};            // where; empty = the winner's own policy.json
};

// One run, and how it was measured.
struct Contender {
  MeasureOptions options = {};
  Measured measured = {};
};

struct Recommended {
  std::deque<Contender> contenders = {};  // stay in their places: `runs` point to them
  std::vector<RunOnTrial> runs = {};
  Recommendation what = {};

  [[nodiscard]] const Contender& winner() const { return contenders[what.best().run]; }
};

// Throws Error before any model runs if the policy could not be written.
[[nodiscard]] Recommended recommend_policy(const RecommendOptions& options, const Observer& observer);

// Writes the recommended policy; returns where. Throws Error: failure if the goal is not met, usage if a certified
// policy would be replaced by one without a certificate.
std::filesystem::path keep_recommended(const RecommendOptions& options, const Recommended& done,
                                       const Observer& observer);

}  // namespace exeunt
