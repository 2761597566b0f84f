// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/access_log.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/json.h"
#include "exeunt/base/version.h"

namespace exeunt::serve {
namespace {

bool is_plain(std::string_view value) noexcept {
  return !value.empty() &&
         std::ranges::all_of(value, [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\'; });
}

std::string quoted(const std::string& value) {
  return OrderedJson(value).dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
}

bool is_zero(std::string_view text) noexcept {
  return text.find_first_not_of('0') == std::string_view::npos;
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

std::string TraceContext::traceparent() const {
  return fmt::format("00-{}-{}-{}", trace_id, span_id, flags);
}

std::string IdSource::hex(int digits) {
  std::string out;
  do {
    out.clear();
    while (out.size() < static_cast<size_t>(digits)) out += fmt::format("{:016x}", random_.next());
    out.resize(static_cast<size_t>(digits));
  } while (is_zero(out));
  return out;
}

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  // version-trace-parent-flags; a later version may append parts after another dash.
  if (text.size() < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32), parent = text.substr(36, 16);
  const std::string_view flags = text.substr(53, 2);
  if (!is_hex(version) || !is_hex(trace) || !is_hex(parent) || !is_hex(flags)) return std::nullopt;
  if (version == "ff" || is_zero(trace) || is_zero(parent)) return std::nullopt;
  if (text.size() > 55 && (version == "00" || text[55] != '-')) return std::nullopt;
  return TraceContext{std::string(trace), std::string(parent), {}, std::string(flags)};
}

std::string request_id_of(std::string_view from_client, IdSource& ids) {
  const auto plain = [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == ':' || c == '-'; };
  const bool safe = !from_client.empty() && from_client.size() <= 64 && std::ranges::all_of(from_client, plain);
  return safe ? std::string(from_client) : ids.hex(16);
}

}  // namespace exeunt::serve
