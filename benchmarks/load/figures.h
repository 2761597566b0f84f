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

// What a trial did, with date, machine and command. How much of the machine others took meanwhile stands in it too,
// since a figure from a busy machine says little.
class Record {
 public:
  Record(std::string trial, std::string command);
  void set(const std::string& name, OrderedJson value) { figures_[name] = std::move(value); }
  // A promise: at most `limit`, or at least.
  void at_most(const std::string& name, double value, double limit);
  void at_least(const std::string& name, double value, double limit);
  [[nodiscard]] bool kept() const noexcept { return kept_; }
  [[nodiscard]] OrderedJson json() const;  // once the server has ended

 private:
  void promise(const std::string& name, double value, double limit, bool most);

  // Seconds of processor time: of the whole machine, of it idle, of this program and the children it has waited for.
  struct Work {
    double all = 0, idle = 0, ours = 0;
  };
  static Work work_so_far();

  std::string trial_, command_, date_;
  Work work_at_start_ = {};
  OrderedJson figures_ = OrderedJson::object(), promises_ = OrderedJson::array();
  bool kept_ = true;
};

}  // namespace exeunt::load
