// SPDX-License-Identifier: Apache-2.0
// The flags of every verb that runs the CPU engine.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "exeunt/runtime/engine.h"

namespace exeunt::apps {

struct EngineFlags {
  std::string precision;  // empty: the model's default, else the engine's choice
  int threads = 0;
};

void add_engine_flags(CLI::App& verb, EngineFlags& flags);

[[nodiscard]] EngineOptions options_from(const EngineFlags& flags);

}  // namespace exeunt::apps
