// SPDX-License-Identifier: Apache-2.0
// A model's answers to a test split under a policy, as the benchmarks' servers take them.
#pragma once

#include "exeunt/eval/scores.h"
#include "exeunt/exits/trace.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/tasks/submission.h"

namespace exeunt {

struct TestRun {
  ElueRun run;        // the answers, and what each text ran
  PolicyScore score;  // its cost; no quality, as tests have no labels
};

// `trace` is the model's over the test split of `task`. Throws Error if the policy does not fit the model.
[[nodiscard]] TestRun answer_test(const Checkpoint& model, const ExitTrace& trace, const Task& task,
                                  const PolicySpec& policy);

}  // namespace exeunt
