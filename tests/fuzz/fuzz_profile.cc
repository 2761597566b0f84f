// SPDX-License-Identifier: Apache-2.0
// Text as a profile.json of a model of two layers; what is accepted predicts finite times and comes back.
#include <cmath>

#include "exeunt/model/profile.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const auto profile = exeunt::parse_profile(exeunt::parse_json(exeunt::text_of(data, size), "input"), 2, "input");
    for (const auto& entry : profile.entries) {
      for (const int tokens : {1, 128, 512})
        exeunt::check(std::isfinite(exeunt::predicted_ms(entry, {.after = 2, .tokens = tokens, .asked = 2})), "finite");
    }
    const std::string text = exeunt::json_text(exeunt::profile_json(profile));
    const auto again =
        exeunt::read_ours([&] { return exeunt::parse_profile(exeunt::parse_json(text, "again"), 2, "again"); });
    exeunt::check(exeunt::json_text(exeunt::profile_json(again)) == text, "a profile comes back from its text");
  });
}
