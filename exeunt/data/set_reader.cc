// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/set_reader.h"

#include <algorithm>
#include <array>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/gold_reader.h"
#include "exeunt/data/labels.h"
#include "exeunt/data/rows.h"

namespace exeunt {

std::vector<std::string> split_labels(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, '|'))
    if (const std::string_view one = trimmed(part); !one.empty()) out.emplace_back(one);
  return out;
}

bool is_given(std::string_view field, std::string_view where) {
  const std::string key = label_key(field);
  if (key == "1" || key == "true" || key == "yes") return true;
  if (key.empty() || key == "0" || key == "false" || key == "no") return false;
  throw_bad_file(where, "got {}, want 1 or 0: whether the row has this label", shown(field));
}

SetReader::SetReader(const UserColumns& columns)
    : names_(columns.labels.empty() ? columns.label_columns : columns.labels), given_(!names_.empty()) {
  for (size_t i = 0; i < names_.size(); ++i) place_.emplace(names_[i], static_cast<int>(i));
}

std::vector<int> SetReader::read(const std::vector<std::string>& labels, std::string_view where) {
  std::vector<int> out;
  for (const std::string& label : labels) {
    const auto [found, added] = place_.emplace(label, static_cast<int>(names_.size()));
    if (added && given_) {
      place_.erase(found);
      throw Error(Code::bad_file,
                  fmt::format("{}: got the label {}, which is not one of those named", where, shown(label)),
                  suggestion(label, names_));
    }
    if (added) names_.push_back(label);
    out.push_back(found->second);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void SetReader::finish(Dataset& data, std::string_view where) const {
  if (names_.empty()) throw_bad_file(where, "no row has a label, want at least one");
  if (names_.size() > kMaxLabels)
    throw_bad_file(where, "got {} different labels, want at most {}", names_.size(), kMaxLabels);
  data.problem = Problem::multi_label;
  data.labels = names_;
  if (given_) return;
  sort_labels(data.labels);
  std::vector<int> moved;
  for (const std::string& name : names_) {
    moved.push_back(static_cast<int>(std::find(data.labels.begin(), data.labels.end(), name) - data.labels.begin()));
  }
  for (Example& example : data.examples) {
    for (int& label : example.given) label = moved[static_cast<size_t>(label)];
    std::sort(example.given.begin(), example.given.end());
  }
}

}  // namespace exeunt
