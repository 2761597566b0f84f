// SPDX-License-Identifier: Apache-2.0
// Policies as the originals' flags and configuration keys say them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/exits/policy.h"

namespace exeunt {

// PABEE's --patience "3,4,5" with --regression_threshold for a regression.
[[nodiscard]] std::vector<PolicySpec> patience_list(std::string_view text, std::optional<float> regression_threshold);

// DeeBERT's and ElasticBERT's --early_exit_entropy "0.3,0.4"; a threshold below 0 never leaves.
[[nodiscard]] std::vector<PolicySpec> entropy_list(std::string_view text);

// BERxiT's --lte_th: "0.2", or groups of value,repeat: "0.3,4;0.2,8".
[[nodiscard]] PolicySpec lte_groups(std::string_view text);

// ELBERT's config.json: thres_name, exit_thres, cnt_thres, margin, range_tmp. Its change_config.py writes every value
// as a float, so cnt_thres may be "8.0".
struct ElbertExit {
  std::string thres_name = "bias_1";  // bias_1, bias_2, bias_3, entropy, logits
  double exit_thres = 0.1, cnt_thres = 8, margin = 0;
  std::optional<double> range_tmp;
};
[[nodiscard]] PolicySpec policy_of(const ElbertExit& exit, int classes);
[[nodiscard]] ElbertExit elbert_exit_of(const PolicySpec& policy);  // of a window or nentropy policy
// One key as `change_config.py --key K --value V` sets it. Throws Error (usage) for a key that is none of the above.
void set_elbert_key(ElbertExit& exit, std::string_view key, std::string_view value);

}  // namespace exeunt
