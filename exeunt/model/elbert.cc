// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/elbert.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

const std::vector<std::string>& threshold_names() {
  static const std::vector<std::string> names{"bias_1", "bias_2", "bias_3", "entropy", "logits"};
  return names;
}

double within(std::string_view key, double value, double low, double high) {
  if (!(value >= low && value <= high))
    throw Error(Code::usage, fmt::format("{}: got {}, want a number from {} to {}", key, value, low, high));
  return value;
}

bool known(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_threshold_name(std::string_view name) {
  if (!known(threshold_names(), name)) {
    throw Error(Code::usage, fmt::format("thres_name: got '{}'", name.substr(0, 64)),
                suggestion(name, threshold_names()));
  }
}

}  // namespace

std::string elbert_policy(const ElbertRule& rule, int outputs) {
  check_threshold_name(rule.thres_name);
  // At or below zero the threshold never lets a text leave.
  const double threshold = within("exit_thres", std::max(0.0, rule.exit_thres), 0, 1);
  if (rule.thres_name == "entropy") return fmt::format("nentropy:{}", threshold);
  if (rule.thres_name == "logits") {
    // "The smallest probability is below t" is "the largest exceeds 1 - t" where there are two.
    return outputs == 2 ? fmt::format("confidence:{}", static_cast<float>(1 - threshold))
                        : fmt::format("minprob:{}", threshold);
  }
  std::string text = fmt::format("window:{},{},{}", threshold, std::trunc(within("cnt_thres", rule.cnt_thres, 1, 1000)),
                                 rule.thres_name);
  if (within("margin", rule.margin, 0, 0.5) != 0) text += fmt::format(",margin={}", rule.margin);
  if (rule.thres_name != "bias_3") return text;
  if (!rule.range_tmp) throw Error(Code::usage, "bias_3 needs range_tmp");
  return text + fmt::format(",range={}", within("range_tmp", *rule.range_tmp, 0, 1));
}

}  // namespace exeunt
