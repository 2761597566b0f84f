// SPDX-License-Identifier: Apache-2.0
// What must hold of every encoding, whatever the tokenizer and the text.
#pragma once

#include <algorithm>
#include <climits>
#include <span>
#include <string_view>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/normalized_text.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

inline void encode_and_check(const Tokenizer& tokenizer, std::string_view text) {
  const auto code_points = static_cast<uint32_t>(count_code_points(replace_invalid_utf8(text)));
  const Encoding all = tokenizer.encode(text, std::nullopt, {.max_length = INT_MAX, .special_tokens = false});
  check(all.ids.size() == all.types.size() && all.ids.size() == all.offsets.size(), "lists of one length");
  for (const int32_t id : all.ids) check(id >= 0 && id < tokenizer.vocabulary(), "ids within the vocabulary");
  for (const auto& [begin, end] : all.offsets) check(begin <= end && end <= code_points, "offsets in the text");
  check(!all.truncated, "nothing is cut where there is room");
  const Encoding cut = tokenizer.encode(text, text, {.max_length = 9, .special_tokens = false});
  check(cut.ids.size() <= 9, "no more tokens than asked for");
  check(cut.truncated == (2 * all.ids.size() > 9), "what is cut says so");
  const Encoding end =
      tokenizer.encode(text, std::nullopt, {.max_length = 9, .special_tokens = false, .keep_end = true});
  check(std::ranges::equal(end.ids, std::span(all.ids).last(std::min<size_t>(9, all.ids.size()))), "the end is kept");
}

}  // namespace exeunt
