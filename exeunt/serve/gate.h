// SPDX-License-Identifier: Apache-2.0
// What a request's header alone decides, before a byte of its body is read. All throw Refusal.
#pragma once

#include <string>
#include <vector>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

struct GateOptions {
  std::vector<std::string> origins = {};  // of other sites whose pages may send requests; "*" = any
  std::vector<std::string> hosts = {};    // names the server goes by, without a port; none = any
  bool loopback = false;                  // reached by local names alone, and `hosts`
};

// 403 for a name that is not ours. A page whose name an attacker has pointed at this machine (DNS rebinding) counts as
// our own site for the browser; its Host shows what it is.
void check_host(const HttpRequest& request, const GateOptions& options);

// 403 for a page of another site, unless it is among `origins`.
void check_origin(const HttpRequest& request, const GateOptions& options);

// 415 for anything but exactly application/json. Programs may leave the type out; browsers may not.
void check_type(const HttpRequest& request);

}  // namespace exeunt::serve
