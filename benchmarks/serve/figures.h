// SPDX-License-Identifier: Apache-2.0
// Numbers made of measurements, and the record of a run that is kept as a file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"

namespace exeunt::load {

// The value below which `share` of them lie (nearest rank); 0 for none.
[[nodiscard]] double percentile(std::vector<float> values, double share);

// To three places, for records.
[[nodiscard]] double rounded(double value);

// Least squares: how fast y grows with x. 0 for fewer than two points.
[[nodiscard]] double slope(const std::vector<std::pair<double, double>>& points);

// Whether one side of `pass` holds is written with the figure, so that a record cannot say one thing and show another.
class Record {
 public:
  Record(std::string trial, std::string command);
  void set(const std::string& name, OrderedJson value) { figures_[name] = std::move(value); }
  // A promise: at most `limit`, or at least.
  void at_most(const std::string& name, double value, double limit);
  void at_least(const std::string& name, double value, double limit);
  [[nodiscard]] bool kept() const noexcept { return kept_; }
  [[nodiscard]] OrderedJson json() const;

 private:
  void promise(const std::string& name, double value, double limit, bool most);

  std::string trial_, command_, date_;
  double load_at_start_ = 0;
  OrderedJson figures_ = OrderedJson::object(), promises_ = OrderedJson::array();
  bool kept_ = true;
};

}  // namespace exeunt::load
