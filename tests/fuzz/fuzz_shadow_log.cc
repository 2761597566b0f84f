// SPDX-License-Identifier: Apache-2.0
// Bytes as a log of shadow runs; what is accepted can be replayed.
#include "exeunt/policy/replay.h"
#include "exeunt/policy/shadow_log.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const exeunt::ShadowLog log = exeunt::parse_shadow_log(exeunt::text_of(data, size), "input");
    exeunt::PolicySpec spec;
    spec.rule = exeunt::rule_of<exeunt::PatienceRule>;
    spec.params = {1, 1};
    (void)exeunt::replay(log.trace, spec);
  });
}
