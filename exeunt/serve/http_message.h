// SPDX-License-Identifier: Apache-2.0
// A complete HTTP request and a response, as plain data.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exeunt::serve {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = {};  // "GET"
  std::string path = {};    // without the query: "/v2/models/m/infer"
  HttpFields fields = {};   // names in lower case
  std::string body = {};
  std::string peer = {};  // the client's address
  bool keep_alive = true;

  // The first field of that (lower-case) name; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const noexcept;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string_view page = {};  // instead of `body`: part of the program, and sent without a copy of it
  HttpFields fields = {};
  bool close = false;      // close the connection after it
  bool head_only = false;  // to HEAD: the body is not sent

  [[nodiscard]] std::string_view content() const noexcept { return page.empty() ? std::string_view(body) : page; }
};

[[nodiscard]] std::string_view reason_of(int status) noexcept;

// Status line and fields, with the empty line at the end.
[[nodiscard]] std::string head_text(const HttpResponse& response, bool keep_alive);

inline constexpr std::string_view kHttpWhitespace = " \t";  // what may surround a field's value

// Does the comma-separated `list` contain `word`, in any case? For Connection, Accept and the like; parameters are
// ignored.
[[nodiscard]] bool list_contains(std::string_view list, std::string_view word);

}  // namespace exeunt::serve
