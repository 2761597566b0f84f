// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/http_message.h"

#include <boost/beast/http/status.hpp>
#include <fmt/format.h>

#include "exeunt/base/ascii.h"

namespace exeunt::serve {

namespace http = boost::beast::http;

std::string_view HttpRequest::field(std::string_view name) const noexcept {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return {};
}

std::string_view reason_of(int status) noexcept {
  if (status == 413) return "Content Too Large";  // RFC 9110's names: Beast has the older ones
  if (status == 422) return "Unprocessable Content";
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
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

bool list_contains(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    item = trimmed(item.substr(0, item.find(';')), kHttpWhitespace);
    if (lower(item) == word) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace exeunt::serve
