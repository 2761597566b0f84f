// SPDX-License-Identifier: Apache-2.0
// Which policy a measured model runs, and how one that was chosen by measuring gets into its policy.json.
#pragma once

#include <filesystem>
#include <string>

#include "exeunt/engine/resolve.h"
#include "exeunt/eval/measure.h"
#include "exeunt/policy/policy_file.h"

namespace exeunt {

// What a measured model runs: resolve_replay() for its trace; its notices go to the observer.
[[nodiscard]] ResolvedPolicy resolve_measured(const Measured& measured, const RunRequest& request,
                                              const Observer& observer);

// Where the policy of a model is kept; an Error where its folder is not in Exeunt's format.
[[nodiscard]] std::filesystem::path policy_path(const Checkpoint& model);

// The policy file at `path` if it was made for `weights`, else one without entries. It is about to be replaced, so a
// link that leads out of its folder is refused.
[[nodiscard]] PolicyFile policies_at(const std::filesystem::path& path, const std::string& weights,
                                     const std::string& default_precision);

// Rejects, before anything is chosen, a trace whose precision a policy file cannot name.
void require_policy_precision(const ExitTrace& trace);

// Puts an entry made from `measured` into the file at `path`, which `lock` holds, keeping those of other precisions;
// its precision may become the model's default.
void keep_policy(const PolicyLock& lock, const std::filesystem::path& path, const Measured& measured, PolicyEntry entry,
                 bool becomes_default = false);

}  // namespace exeunt
