// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/groups.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kLengths = 4;

// The shortest texts of each quarter; fewer where many texts have one length.
std::vector<int32_t> quarters(std::vector<int32_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  std::vector<int32_t> least{0};
  for (size_t i = 1; i < kLengths; ++i) {
    const int32_t length = lengths[i * lengths.size() / kLengths];
    if (length > std::max(least.back(), lengths.front())) least.push_back(length);
  }
  return least;
}

}  // namespace

Grouping::Grouping(const GroupPlan& plan, const CalibrationData& data) : plan_(plan) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::usage, fmt::format("groups by {}: {}", plan.by, why));
  };
  if (plan.by.empty()) return;
  if (plan.by == "label") {
    if (data.fit.info.problem == Problem::regression) refuse("a model that predicts numbers has no labels");
    several_ = data.fit.info.problem == Problem::multi_label;
    gold_ = data.fit.labelled() && data.certify.labelled() && data.report.labelled();
    names_ = data.fit.info.labels;
  } else if (plan.by == "length") {
    if (data.fit.lengths.empty()) refuse("the trace does not know the lengths");
    least_ = quarters(data.fit.lengths);
    for (size_t i = 0; i < least_.size(); ++i) {
      names_.push_back(i + 1 == least_.size() ? fmt::format("{} tokens and more", least_[i])
                       : i == 0               ? fmt::format("below {} tokens", least_[1])
                                              : fmt::format("{} to {} tokens", least_[i], least_[i + 1] - 1));
    }
  } else {
    const std::set<std::string> names(plan.values.begin(), plan.values.end());
    if (names.size() > kMaxGroups) refuse(fmt::format("got {} values, want at most {}", names.size(), kMaxGroups));
    names_.assign(names.begin(), names.end());
  }
}

size_t Grouping::group_of(const ExitTrace& part, const PartRows& rows, size_t row) const {
  if (plan_.by == "label") {
    if (gold_) return static_cast<size_t>(part.gold[row]);
    const std::span<const float> full = part.full_depth(row);
    return static_cast<size_t>(std::max_element(full.begin(), full.end()) - full.begin());
  }
  if (plan_.by == "length") {
    const auto after = std::upper_bound(least_.begin(), least_.end(), part.lengths[row]);
    return static_cast<size_t>(after - least_.begin()) - 1;
  }
  const std::string& value = plan_.values.at(rows.row.at(row));
  return static_cast<size_t>(std::lower_bound(names_.begin(), names_.end(), value) - names_.begin());
}

bool Grouping::has(const ExitTrace& part, size_t row, int label) const {
  if (gold_) return part.gold[row * part.gold_width() + static_cast<size_t>(label)] == 1;
  const ExitLogits full = part.exit_logits(part.full_depth(row));
  return has_label(full, label);
}

std::vector<std::vector<size_t>> Grouping::rows_of(const ExitTrace& part, const PartRows& rows) const {
  std::vector<std::vector<size_t>> groups(names_.size());
  if (names_.empty()) return groups;
  for (size_t row = 0; row < part.rows; ++row) {
    if (!several_) groups[group_of(part, rows, row)].push_back(row);
    for (int label = 0; several_ && label < part.width; ++label)
      if (has(part, row, label)) groups[static_cast<size_t>(label)].push_back(row);
  }
  return groups;
}

}  // namespace exeunt
