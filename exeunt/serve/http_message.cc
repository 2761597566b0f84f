// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/http_message.h"

#include <fmt/format.h>

namespace exeunt::serve {
namespace {

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view HttpRequest::field(std::string_view name) const noexcept {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return {};
}

std::string_view reason_of(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

std::string head_text(const HttpResponse& response, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  if (response.status != 204 && response.status != 304) {
    if (!response.type.empty()) out += fmt::format("content-type: {}\r\n", response.type);
    out += fmt::format("content-length: {}\r\n", response.body.size());
  }
  for (const auto& [name, value] : response.fields) out += fmt::format("{}: {}\r\n", name, value);
  out += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool list_holds(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    item = trimmed(item.substr(0, item.find(';')));
    if (lower(item) == word) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace exeunt::serve
