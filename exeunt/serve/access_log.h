// SPDX-License-Identifier: Apache-2.0
// One log line per request and event, as text or JSON. Request texts and keys are never logged.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exeunt::serve {

struct LogEntry {
  std::string_view level = "info";  // info, warn, error
  std::string_view message = {};
  // Some values come from clients: both forms escape them.
  std::vector<std::pair<std::string_view, std::string>> fields = {};
};

class Log {
 public:
  using Write = std::function<void(std::string_view line)>;
  Log(bool json, Write write) : json_(json), write_(std::move(write)) {}

  void operator()(const LogEntry& entry) const;

 private:
  bool json_;
  Write write_;
};

}  // namespace exeunt::serve
