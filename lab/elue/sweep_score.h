// SPDX-License-Identifier: Apache-2.0
// ELUE's score of a sweep, and the file that keeps the scores of its tasks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "exeunt/eval/sweep_model.h"
#include "lab/elue/elue.h"

namespace exeunt {

struct ElueOutcome {
  std::string task = {};
  std::optional<ElueScore> score = {};  // nothing without a baseline for the task
  std::string source = {};              // of the baseline, with its remark; empty = there is none for this shape
};

// ELUE's score of the rows against static models: those of the file `baseline`, or the shipped ones of the same shape
// if it is empty. Throws Error.
[[nodiscard]] ElueOutcome elue_outcome(const Swept& swept, const std::string& baseline,
                                       Extrapolate beyond = Extrapolate::clamp);

// Puts a task's score into the file, which may hold other tasks' (docs/formats.md). Returns ELUE's overall score if all
// six are there. Throws Error.
std::optional<double> keep_elue_score(const std::filesystem::path& path, const std::string& task, double score);

}  // namespace exeunt
