// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/check_text.h"

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {

void check_text(const ModelSpec& spec, std::span<const int32_t> ids, std::span<const uint8_t> types) {
  check(types.size() == ids.size(), "as many types as ids");
  if (ids.empty()) throw Error(Code::bad_file, "text: got no tokens, want at least one");
  if (ids.size() > static_cast<size_t>(spec.max_tokens())) {
    throw Error(Code::bad_file,
                fmt::format("text: got {} tokens, the model takes at most {}", ids.size(), spec.max_tokens()),
                "shorten the texts with a smaller maximum length");
  }
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= spec.vocab) {
      throw Error(Code::bad_file, fmt::format("text: token {}: got id {}, want 0 to {}", t + 1, ids[t], spec.vocab - 1),
                  "the tokenizer does not belong to this model");
    }
    if (spec.segments > 0 && types[t] >= spec.segments) {
      throw Error(Code::bad_file,
                  fmt::format("text: token {}: got type {}, want 0 to {}", t + 1, types[t], spec.segments - 1),
                  "the tokenizer does not belong to this model");
    }
  }
}

}  // namespace exeunt
