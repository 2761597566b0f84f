// SPDX-License-Identifier: Apache-2.0
// From what was measured to the policy file of a model, for the verbs that choose a policy by measuring.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "apps/exeunt/model_runs.h"
#include "exeunt/exits/policy_file.h"

namespace exeunt::apps {

// Refuses, before anything is chosen, a trace whose precision no policy file knows.
void require_policy_precision(const ExitTrace& trace);

// Puts an entry made from `measured` into the file at `path`, which `lock` holds, beside those of other precisions.
void keep_policy(const PolicyLock& lock, const std::filesystem::path& path, const Measured& measured,
                 PolicyEntry entry);

// The range of a regression's labels, by the model or the task.
[[nodiscard]] std::optional<std::pair<double, double>> label_range(const Measured& measured);

}  // namespace exeunt::apps
