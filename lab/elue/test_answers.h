// SPDX-License-Identifier: Apache-2.0
// A model's answers to a test split under a policy, as the benchmarks' servers take them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exeunt/eval/measure.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/policy/trace.h"
#include "lab/elue/submission.h"

namespace exeunt {

struct TestRun {
  ElueRun run;             // the answers, and what each text ran
  PolicyScore score;       // its cost; no quality, as tests have no labels
  int64_t parameters = 0;  // of the model
};

// `trace` is the model's over the test split of `task`. Throws Error if the policy does not fit the model.
[[nodiscard]] TestRun answer_test(const Checkpoint& model, const ExitTrace& trace, const Task& task,
                                  const PolicySpec& policy);

struct SubmitOptions {
  std::map<std::string, std::string> models = {};  // by the name of the task
  std::string policy = {};                         // empty = each model's own
  std::string out = {};
  std::string task = {};        // of GLUE: this table alone, instead of the zip
  MeasureOptions measure = {};  // data.path is the folder that holds the tasks' folders
};

struct Submitted {
  std::vector<TestRun> runs = {};
  std::vector<std::string> filled = {};  // files of GLUE's zip that hold a constant
};

// Writes GLUE's zip, or the table of one task. Tasks without a test file are skipped with a notice; MNLI's model also
// answers MNLI-mm and AX. Throws Error.
[[nodiscard]] Submitted submit_glue(const SubmitOptions& options, const Observer& observer);

// Writes a folder with ELUE's tables, the Python file of each model's modules, and parameters.json. Throws Error.
[[nodiscard]] Submitted submit_elue(const SubmitOptions& options, const Observer& observer);

}  // namespace exeunt
