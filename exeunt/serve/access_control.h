// SPDX-License-Identifier: Apache-2.0
// Who may send a request: API keys, and what its header alone decides before a byte of its body is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

struct AccessOptions {
  std::vector<std::string> origins = {};  // of other sites whose pages may send requests; "*" = any
  std::vector<std::string> hosts = {};    // accepted Host names, without a port; none = any
  bool loopback = false;                  // only local names, and `hosts`
};

// 403 for a name that is not ours. A page whose name an attacker has pointed at this machine (DNS rebinding) counts as
// our own site for the browser; its Host shows what it is.
void check_host(const HttpRequest& request, const AccessOptions& options);

// 403 for a page of another site, unless it is among `origins`.
void check_origin(const HttpRequest& request, const AccessOptions& options);

// 415 for anything but exactly application/json. Programs may leave the type out; browsers may not.
void check_content_type(const HttpRequest& request);

// API keys, kept as hashes and compared in constant time.
class ApiKeys {
 public:
  ApiKeys() = default;  // no key is required
  explicit ApiKeys(const std::vector<std::string>& keys);

  [[nodiscard]] bool required() const noexcept { return !hashes_.empty(); }
  // `authorization`: the field's value, "Bearer KEY".
  [[nodiscard]] bool allow(std::string_view authorization) const;

 private:
  std::vector<std::string> hashes_;
};

// One key per line; empty lines and lines that start with # are skipped. Throws Error (usage) for a key shorter than 8
// bytes or with spaces, and if there is no key. `where` prefixes the message, which never shows a key.
[[nodiscard]] std::vector<std::string> parse_keys(std::string_view text, std::string_view where);

}  // namespace exeunt::serve
