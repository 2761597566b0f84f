// SPDX-License-Identifier: Apache-2.0
// Text as a policy.json; what is accepted comes back from what we write of it.
#include "exeunt/policy/policy_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const auto file = exeunt::parse_policy_file(exeunt::text_of(data, size), "input");
    const std::string text = exeunt::policy_file_text(file);
    const auto again = exeunt::read_ours([&] { return exeunt::parse_policy_file(text, "again"); });
    exeunt::check(exeunt::policy_file_text(again) == text, "a policy file comes back from its text");
  });
}
