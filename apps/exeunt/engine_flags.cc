// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/engine_flags.h"

namespace exeunt::apps {

void add_engine_flags(CLI::App& verb, EngineFlags& flags) {
  verb.add_option("--precision", flags.precision,
                  "fp32, bf16 or int8; left out: the model's default, else bf16 where the processor has it")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}));
  verb.add_option("--threads", flags.threads, "Threads; 0 = as many as the machine has")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

EngineOptions options_from(const EngineFlags& flags) {
  EngineOptions options;
  options.precision = precision_named(flags.precision);
  options.threads = flags.threads;
  return options;
}

}  // namespace exeunt::apps
