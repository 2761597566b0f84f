// SPDX-License-Identifier: Apache-2.0
// An HTTP request that has been read whole, and an answer that has not been written yet, as plain data.
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
  std::string query = {};
  HttpFields fields = {};  // names in lower case
  std::string body = {};
  bool keep_alive = true;

  // The first field of that (lower-case) name; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const noexcept;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  HttpFields fields = {};
  bool close = false;      // end the connection behind this answer
  bool head_only = false;  // the answer to HEAD: its body stays here
};

[[nodiscard]] std::string_view reason_of(int status) noexcept;

// Status line and fields, up to and with the empty line.
[[nodiscard]] std::string head_text(const HttpResponse& response, bool keep_alive);

[[nodiscard]] std::string lower(std::string_view text);

// Does the comma list `list` hold `word` (in any case)? For Connection, Accept and the like; parameters are ignored.
[[nodiscard]] bool list_holds(std::string_view list, std::string_view word);

}  // namespace exeunt::serve
