// SPDX-License-Identifier: Apache-2.0
// Policies as the originals' flags and configuration keys give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/model/config.h"
#include "exeunt/policy/policy.h"

namespace exeunt {

// PABEE's --patience "3,4,5" with --regression_threshold for regression.
[[nodiscard]] std::vector<PolicySpec> patience_list(std::string_view text, std::optional<float> regression_threshold);

// DeeBERT's and ElasticBERT's --early_exit_entropy "0.3,0.4"; a threshold below 0 never leaves.
[[nodiscard]] std::vector<PolicySpec> entropy_list(std::string_view text);

// BERxiT's --lte_th: "0.2", or groups of value,repeat: "0.3,4;0.2,8".
[[nodiscard]] PolicySpec lte_groups(std::string_view text);

// One key as `change_config.py --key K --value V` sets it. Throws Error (usage) for an unknown key or a bad value.
void set_elbert_key(ConfigRule& rule, std::string_view key, std::string_view value);

// A policy in ELBERT's terms; nothing where its keys describe no such policy.
[[nodiscard]] std::optional<ConfigRule> elbert_rule_of(const PolicySpec& policy);

}  // namespace exeunt
