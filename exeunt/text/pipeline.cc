// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/pipeline.h"

#include "exeunt/base/error.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
Pipeline::Pipeline(Parts parts, Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      normalizer_(std::move(parts.normalizer)),
      post_(std::move(parts.post)),
      added_(std::move(parts.added), vocabulary_, normalizer_, parts.where) {
  if (post_.trim_offsets) {
    blanks_.resize(static_cast<size_t>(vocabulary_.id_limit()));
    for (size_t id = 0; id < blanks_.size(); ++id) {
      blanks_[id] = count_blanks(vocabulary_.token(static_cast<int32_t>(id)));
    }
  }
  for (const Template* pieces : {&post_.single, &post_.pair}) {
    for (const TemplatePiece& piece : *pieces) {
      for (const int32_t id : piece.ids) {
        if (vocabulary_.has(id) || added_.content(id) != nullptr) continue;
        throw_bad_file(parts.where, "post_processor: got special token id {}, want one of the vocabulary", id);
      }
    }
  }
}

int Pipeline::id_limit() const noexcept {
  return std::max(vocabulary_.id_limit(), added_.id_limit());
}

std::string Pipeline::token(int32_t id) const {
  const std::string* content = added_.content(id);
  return content != nullptr ? *content : std::string(vocabulary_.token(id));
}

std::optional<int32_t> Pipeline::id(std::string_view token) const {
  const auto added = added_.id(token);
  return added ? added : vocabulary_.id(token);
}

size_t Pipeline::settled_bytes(std::string_view text) const noexcept {
  size_t end = text.size() - std::min(text.size(), reach());
  while (end > 0 && end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0U) == 0x80U) --end;
  // An added token may take the white space before it.
  while (end > 0) {
    const size_t at = last_code_point(text.substr(0, end));
    if (!unicode::is_space(decode_utf8(text.substr(at)).code_point)) break;
    end = at;
  }
  return end;
}

Offset Pipeline::trimmed(Offset offset, std::string_view found, bool first) const {
  return post_.trim_offsets ? trim_blanks(offset, count_blanks(found), post_.add_prefix_space, first) : offset;
}

void Pipeline::trim(Tokens& tokens, size_t from) const {
  for (size_t i = from; i < tokens.ids.size(); ++i) {
    const Blanks& blanks = blanks_[static_cast<size_t>(tokens.ids[i])];
    tokens.offsets[i] = trim_blanks(tokens.offsets[i], blanks, post_.add_prefix_space, i == 0);
  }
}

uint32_t Pipeline::Place::code_points(size_t up_to) noexcept {
  // Parts may overlap, so a position can be before the previous one.
  if (up_to < byte) {
    count -= static_cast<uint32_t>(count_code_points(text.substr(up_to, byte - up_to)));
  } else {
    count += static_cast<uint32_t>(count_code_points(text.substr(byte, up_to - byte)));
  }
  byte = up_to;
  return count;
}

}  // namespace exeunt
