// SPDX-License-Identifier: Apache-2.0
// Bytes as a trace; what is accepted can be replayed.
#include "exeunt/policy/replay.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const exeunt::ExitTrace trace = exeunt::parse_trace(exeunt::bytes_of(data, size), "input");
    exeunt::PolicySpec spec;
    spec.rule = trace.info.problem == exeunt::Problem::regression ? exeunt::rule_of<exeunt::PatienceRule>
                                                                  : exeunt::rule_of<exeunt::DivergenceRule>;
    spec.params = {1, 1};
    (void)exeunt::replay(trace, spec);
  });
}
