// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/access_log.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/json.h"
#include "exeunt/base/version.h"

namespace exeunt::serve {
namespace {

bool is_plain(std::string_view value) noexcept {
  return !value.empty() && std::all_of(value.begin(), value.end(),
                                       [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\'; });
}

std::string quoted(const std::string& value) {
  return OrderedJson(value).dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
}

}  // namespace

void Log::operator()(const LogEntry& entry) const {
  if (!write_) return;
  if (json_) {
    OrderedJson line;
    line["timestamp"] = now_rfc3339();
    line["level"] = entry.level;
    line["message"] = entry.message;
    for (const auto& [name, value] : entry.fields) line[std::string(name)] = value;
    return write_(line.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) + "\n");
  }
  std::string line = fmt::format("{} {} {}", now_rfc3339(), entry.level, entry.message);
  for (const auto& [name, value] : entry.fields) {
    line += fmt::format(" {}={}", name, is_plain(value) ? value : quoted(value));
  }
  write_(line + "\n");
}

}  // namespace exeunt::serve
