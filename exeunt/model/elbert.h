// SPDX-License-Identifier: Apache-2.0
// ELBERT's exit rule as the keys of its config.json give it, and the exit policy that does the same.
#pragma once

#include <optional>
#include <string>

namespace exeunt {

// Named after the keys. ELBERT's change_config.py writes every value as a float, so cnt_thres may be 8.0.
struct ElbertRule {
  std::string thres_name = "bias_1";  // bias_1, bias_2, bias_3, entropy, logits
  double exit_thres = 0.1, cnt_thres = 8, margin = 0;
  std::optional<double> range_tmp = {};
};

// As policy text, "window:0.1,8,bias_1". Throws Error (usage) where a value is missing or out of range.
[[nodiscard]] std::string elbert_policy(const ElbertRule& rule, int outputs);

}  // namespace exeunt
