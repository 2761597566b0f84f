// SPDX-License-Identifier: Apache-2.0
// `exeunt serve`: from serve.cc, or from serve_absent.cc in a build without Boost or OpenSSL.
#pragma once

#include "apps/exeunt/command.h"

namespace exeunt::apps {

void add_serve(CommandLine& line);
[[nodiscard]] bool has_server() noexcept;

}  // namespace exeunt::apps
