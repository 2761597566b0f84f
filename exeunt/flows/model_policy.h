// SPDX-License-Identifier: Apache-2.0
// Which policy a measured model runs, and how one that was chosen by measuring gets into its policy.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "exeunt/base/json.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/flows/measure.h"

namespace exeunt {

struct ChosenPolicy {
  PolicySpec policy = {};
  std::optional<OrderedJson> certificate = {};
};

// What a measured model runs: `text` if it is given (a policy, or the name of a policy file, which ends in .json); else
// the entry of its policy.json for the trace's precision; else full depth. A notice says which of the last two.
[[nodiscard]] ChosenPolicy choose_policy(const Measured& measured, const std::string& text, const Observer& observer);

// Where the policy of a model is kept; an Error where its folder is not in Exeunt's format.
[[nodiscard]] std::filesystem::path policy_path(const Checkpoint& model);

// The policy file at `path` if it was made for `weights`, else one without entries.
[[nodiscard]] PolicyFile policies_at(const std::filesystem::path& path, const std::string& weights,
                                     const std::string& default_precision);

// The certificate at `path` for what was measured, in words; empty = there is none, or it is of other weights.
[[nodiscard]] std::string promise_at(const std::filesystem::path& path, const Measured& measured);

// Refuses, before anything is chosen, a trace whose precision no policy file knows.
void require_policy_precision(const ExitTrace& trace);

// Puts an entry made from `measured` into the file at `path`, which `lock` holds, keeping those of other precisions.
void keep_policy(const PolicyLock& lock, const std::filesystem::path& path, const Measured& measured,
                 PolicyEntry entry);

}  // namespace exeunt
