// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/gold_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/rows.h"

namespace exeunt {
namespace {

// "1.00" as "1": numbers that pandas turned into floats, because a value was missing.
std::string_view without_zeros(std::string_view text) noexcept {
  const size_t point = text.find('.');
  const bool zeros = point != std::string_view::npos && point > 0 && point + 1 < text.size() &&
                     text.find_first_not_of('0', point + 1) == std::string_view::npos;
  return zeros && number_of<int64_t>(text.substr(0, point)) ? text.substr(0, point) : text;
}

std::string rows_text(int64_t rows) {
  return fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
}

std::map<std::string_view, int> places_of(const std::vector<std::string>& labels) {
  std::map<std::string_view, int> out;
  for (size_t i = 0; i < labels.size(); ++i) out.emplace(labels[i], static_cast<int>(i));
  return out;
}

// A label as it is compared: without blanks around it, without case (of ASCII letters), and "1.0" as "1". What is
// written in two ways is one label.
std::string label_key(std::string_view label) {
  return lower(without_zeros(trimmed(label)));
}

}  // namespace

bool looks_missing(std::string_view label) {
  static constexpr std::array<std::string_view, 9> kMissing{"na",   "n/a",  "#n/a", "<na>", "nan",
                                                            "-nan", "null", "nil",  "#na"};
  return std::find(kMissing.begin(), kMissing.end(), lower(trimmed(label))) != kMissing.end();
}

GoldReader::GoldReader(const UserColumns& columns)
    : problem_(columns.problem), skip_bad_(columns.skip_bad), given_(columns.labels) {
  if (given_.empty()) return;
  if (problem_ == Problem::regression) throw Error(Code::usage, "a regression has no list of labels");
  exact_.emplace(given_);
  problem_ = Problem::classification;
  labels_.resize(given_.size());
  std::map<std::string, int> uses;
  for (const std::string& name : given_) ++uses[label_key(name)];
  for (size_t i = 0; i < given_.size(); ++i) {
    if (uses[label_key(given_[i])] == 1) by_key_.emplace(label_key(given_[i]), i);
  }
}

// Names that are given stay apart even if they differ in case alone.
size_t GoldReader::label_of(std::string_view label, std::string_view where) {
  if (exact_) {
    if (!exact_->has(label)) {
      const auto found = by_key_.find(label_key(label));
      if (found != by_key_.end()) return found->second;
    }
    return static_cast<size_t>(exact_->gold(label, where));
  }
  const auto [found, added] = by_key_.emplace(label_key(label), labels_.size());
  if (added) labels_.emplace_back();
  return found->second;
}

float GoldReader::read(std::string_view label, std::string_view where) {
  if (trimmed(label).empty()) {
    throw_bad_file(where, "got an empty label, want a {}", problem_ == Problem::regression ? "number" : "name");
  }
  if (skip_bad_ && looks_missing(label) && !(exact_ && exact_->has(label))) {
    throw_bad_file(where, "got the label {}, which stands for a missing value", shown(label));
  }
  if (problem_ == Problem::regression) return gold_value(label, std::nullopt, where);
  const size_t index = label_of(label, where);
  std::map<std::string, int64_t, std::less<>>& spellings = labels_[index].spellings;
  const std::string_view name = trimmed(label);
  if (name.size() != label.size() && !(exact_ && exact_->has(label))) ++with_blanks_;
  const auto spelled = spellings.find(name);
  spelled == spellings.end() ? void(spellings.emplace(name, 1)) : void(++spelled->second);
  rows_.push_back(index);
  return exact_ ? static_cast<float>(index) : kNoGold;
}

// The usual spelling of each label; of equally usual ones the first by bytes, whatever the order of the rows.
std::vector<std::string> GoldReader::names() const {
  if (exact_) return given_;
  std::vector<std::string> out;
  for (const Label& label : labels_) {
    const auto usual = std::max_element(label.spellings.begin(), label.spellings.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    out.push_back(usual->first);
  }
  return out;
}

void GoldReader::finish(Dataset& data, std::string_view where) {
  data.problem = problem_.value_or(looks_like_numbers() ? Problem::regression : Problem::classification);
  if (data.problem == Problem::regression) return finish_regression(data);
  finish_labels(data, where);
}

// Whole numbers are class indices, also if they are written as 1.0; a number with a fraction is a measurement.
bool GoldReader::looks_like_numbers() const {
  bool fraction = false;
  for (const Label& label : labels_) {
    for (const auto& [name, rows] : label.spellings) {
      const auto value = parse_number(name);
      if (!value) return false;
      fraction = fraction || *value != std::floor(*value);
    }
  }
  return fraction;
}

void GoldReader::finish_regression(Dataset& data) const {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (size_t i = 0; i < data.examples.size(); ++i) {
    Example& example = data.examples[i];
    if (!problem_) example.gold = static_cast<float>(*parse_number(labels_[rows_[i]].spellings.begin()->first));
    low = std::min<double>(low, example.gold);
    high = std::max<double>(high, example.gold);
  }
  if (low <= high) data.range = {low, high};
}

void GoldReader::finish_labels(Dataset& data, std::string_view where) const {
  const std::vector<std::string> names = this->names();
  if (names.size() > kMaxLabels) {
    throw Error(Code::bad_file,
                fmt::format("{}: got {} different labels, want at most {}", where, names.size(), kMaxLabels),
                "check that the label column is the right one; numbers may be meant as a regression");
  }
  if (names.size() == 1 && !exact_) {
    throw Error(Code::bad_file,
                fmt::format("{}: got one label only, {}, want at least two", where, shown(names.front())),
                "name all labels with --labels if this file has just one of them");
  }
  say_joined(data, where, names);
  data.labels = names;
  if (exact_) return;
  say_several(data, where, names);
  sort_labels(data.labels);
  const auto places = places_of(data.labels);
  for (size_t i = 0; i < data.examples.size(); ++i)
    data.examples[i].gold = static_cast<float>(places.at(names[rows_[i]]));
}

void GoldReader::say_joined(Dataset& data, std::string_view where, const std::vector<std::string>& names) const {
  constexpr size_t kShown = 3;
  if (with_blanks_ > 0) {
    data.notices.push_back(fmt::format("{}: left out the blanks around the label{} of {}", where,
                                       with_blanks_ == 1 ? "" : "s", rows_text(with_blanks_)));
  }
  size_t joined = 0;
  std::vector<std::string> examples;
  for (size_t i = 0; i < labels_.size(); ++i) {
    std::vector<std::string> others;
    for (const auto& [name, rows] : labels_[i].spellings) {
      if (name != names[i]) others.push_back(fmt::format("{} ({})", shown(name), rows_text(rows)));
    }
    if (others.empty()) continue;
    ++joined;
    if (examples.size() < kShown) examples.push_back(fmt::format("{} as {}", fmt::join(others, ", "), shown(names[i])));
  }
  if (joined == 0) return;
  data.notices.push_back(fmt::format("{}: read {}{}{}", where, fmt::join(examples, "; "),
                                     joined > kShown ? fmt::format(" … ({} labels in all)", joined) : "",
                                     exact_ ? "" : "; name all with --labels if they are different"));
}

// Labels like "a, b" that are made of fewer names than there are labels: probably rows with several labels.
void GoldReader::say_several(Dataset& data, std::string_view where, const std::vector<std::string>& names) const {
  constexpr int64_t kLeastShare = 10;  // one row in so many
  for (const char separator : {'|', ',', ';'}) {
    std::set<std::string> parts;
    const std::string* joined = nullptr;
    int64_t rows = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<std::string_view> words = split(names[i], separator);
      for (const std::string_view word : words) parts.insert(label_key(word));
      if (words.size() == 1) continue;
      joined = &names[i];
      for (const auto& [name, count] : labels_[i].spellings) rows += count;
    }
    if (parts.size() >= names.size() || rows * kLeastShare < static_cast<int64_t>(rows_.size())) continue;
    data.notices.push_back(fmt::format(
        "{}: {} with a label like {}, and {} labels made of {} names: if rows have several labels, {}--multi-label",
        where, rows_text(rows), shown(*joined), names.size(), parts.size(),
        separator == '|' ? "use " : "write them as a|b and use "));
  }
}

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
  const auto places = places_of(data.labels);
  for (Example& example : data.examples) {
    for (int& label : example.given) label = places.at(names_[static_cast<size_t>(label)]);
    std::sort(example.given.begin(), example.given.end());
  }
}

}  // namespace exeunt
