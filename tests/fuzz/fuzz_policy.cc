// SPDX-License-Identifier: Apache-2.0
// Text as a policy and as a sweep; what is accepted comes back from its own text.
#include "exeunt/policy/policy_text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = exeunt::text_of(data, size);
  exeunt::read_or_refuse([&] {
    const exeunt::PolicySpec spec = exeunt::parse_policy(text);
    exeunt::check(exeunt::parse_policy(exeunt::str(spec)) == spec, "a policy comes back from its text");
    exeunt::check_spec(spec);
  });
  return exeunt::read_or_refuse([&] { (void)exeunt::parse_sweep(text); });
}
