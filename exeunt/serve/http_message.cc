// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/http_message.h"

#include <fmt/format.h>

#include "exeunt/base/ascii.h"

namespace exeunt::serve {

std::string_view HttpRequest::field(std::string_view name) const noexcept {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return {};
}

std::string_view reason_of(int status) noexcept {
  constexpr std::pair<int, std::string_view> known[] = {{200, "OK"},
                                                        {204, "No Content"},
                                                        {304, "Not Modified"},
                                                        {400, "Bad Request"},
                                                        {401, "Unauthorized"},
                                                        {403, "Forbidden"},
                                                        {404, "Not Found"},
                                                        {405, "Method Not Allowed"},
                                                        {408, "Request Timeout"},
                                                        {413, "Content Too Large"},
                                                        {415, "Unsupported Media Type"},
                                                        {422, "Unprocessable Content"},
                                                        {424, "Failed Dependency"},
                                                        {429, "Too Many Requests"},
                                                        {431, "Request Header Fields Too Large"},
                                                        {500, "Internal Server Error"},
                                                        {503, "Service Unavailable"},
                                                        {504, "Gateway Timeout"}};
  for (const auto& [number, reason] : known) {
    if (number == status) return reason;
  }
  return "Status";
}

std::string head_text(const HttpResponse& response, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  if (response.status != 204 && response.status != 304) {
    if (!response.type.empty()) out += fmt::format("content-type: {}\r\n", response.type);
    out += fmt::format("content-length: {}\r\n", response.content().size());
  }
  for (const auto& [name, value] : response.fields) out += fmt::format("{}: {}\r\n", name, value);
  out += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return out;
}

bool list_holds(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    item = trimmed(item.substr(0, item.find(';')), kHttpBlanks);
    if (lower(item) == word) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace exeunt::serve
