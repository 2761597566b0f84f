// SPDX-License-Identifier: Apache-2.0
// The whole server: model, engine and policy, the service over them, and the listener in front.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/serve/listener.h"
#include "exeunt/serve/service.h"

namespace exeunt::serve {

struct ServerOptions {
  std::string model = {};                   // folder, or org/name in the local cache
  std::string served_name = {};             // empty = the folder's name
  std::optional<std::string> policy = {};   // instead of the model's own
  std::optional<std::string> allowed = {};  // --allow-policies
  double max_drop_under_load = 0;
  std::string shadow_log = {};  // --shadow-log
  int max_length = 0;           // maximum tokens per text; 0: as RunRequest::max_length
  EngineOptions engine = {};
  ServiceOptions service = {};
  ListenerOptions listener = {};
  std::string api_key = {}, api_key_file = {};
  bool insecure_no_auth = false;  // a public address without a key
};

// Refuses a public address without a key, and flags that contradict each other. Throws Error (usage).
void check_server_options(const ServerOptions& options);

// Serves until SIGTERM. True if every request was answered. Throws Error before it listens.
bool run_server(ServerOptions options, const Log& log);

}  // namespace exeunt::serve
