// SPDX-License-Identifier: Apache-2.0
// What the watch of each certified point has seen, as a JSON file beside the shadow log, so that a restart of the
// server does not forget it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/certify/risk.h"

namespace exeunt::serve {

struct WatchedBets {
  std::string policy = {};   // of the point,
  double max_drop = 0;       // its certified loss,
  std::string created = {};  // and when that was certified: another certificate is watched from its own start
  bool others = false;       // of the texts that a loss about a label is not about
  int64_t losses = 0;
  std::vector<double> wealth = {};  // RiskAlarm::Memory
  bool alarm = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// Empty where there is no file. Throws Error (bad_file) for a damaged one.
[[nodiscard]] std::vector<WatchedBets> read_watch_file(const std::filesystem::path& path);
[[nodiscard]] std::string watch_file_text(const std::vector<WatchedBets>& points);

}  // namespace exeunt::serve
