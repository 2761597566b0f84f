// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/trace_context.h"

#include <algorithm>

#include <fmt/format.h>

namespace exeunt::serve {
namespace {

bool is_hex(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) noexcept {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

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
  const bool safe = !from_client.empty() && from_client.size() <= 64 &&
                    std::all_of(from_client.begin(), from_client.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                             c == '_' || c == ':' || c == '-';
                    });
  return safe ? std::string(from_client) : ids.hex(16);
}

}  // namespace exeunt::serve
