// SPDX-License-Identifier: Apache-2.0
// `exeunt serve` in a build without Boost or OpenSSL: what is missing, and how to get it.
#include "apps/exeunt/command.h"
#include "exeunt/base/error.h"

namespace exeunt::apps {

bool has_server() noexcept {
  return false;
}

void add_serve(CommandLine& line) {
  CLI::App* verb = add_verb(line, "serve", "Serve a model over HTTP (not in this build)", {}, [] {
    throw Error(Code::usage, "this build has no server", "install libboost1.81-dev and libssl-dev, and build again");
  });
  verb->allow_extras();
}

}  // namespace exeunt::apps
