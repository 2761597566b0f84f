// SPDX-License-Identifier: Apache-2.0
// BERT's normalisation: clean up, put spaces around ideographs, strip accents, lower case.

#include "exeunt/base/utf8.h"
#include "exeunt/text/normalizer.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

bool is_ascii_control(uint8_t c) noexcept {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
}

// ASCII without control characters keeps every byte in place. The loops are simple so that they vectorise.
bool clean_plain(const BertCleanup& cleanup, NormalizedText& text) {
  auto* bytes = reinterpret_cast<uint8_t*>(text.data());
  const size_t size = text.size();
  if (cleanup.clean_text) {
    unsigned found = 0;
    for (size_t i = 0; i < size; ++i) found |= static_cast<unsigned>(is_ascii_control(bytes[i]));
    if (found != 0) return false;
    for (size_t i = 0; i < size; ++i) bytes[i] = bytes[i] < 0x20 ? ' ' : bytes[i];
  }
  if (cleanup.lowercase) {
    for (size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<uint8_t>(bytes[i] + (static_cast<uint8_t>(bytes[i] - 'A') < 26 ? 0x20 : 0));
    }
  }
  return true;
}

// All steps in one pass over the code points. A mark that is kept may have to swap places with its neighbours: then
// `needs_order` is set and the result must not be used.
class OnePass {
 public:
  OnePass(const BertCleanup& cleanup, NormalizedText& out) : cleanup_(cleanup), out_(out) {}

  void put(char32_t c, Offset origin) {
    if (cleanup_.clean_text) {
      if (unicode::is_bert_removed(c)) return;
      if (unicode::is_space(c)) c = U' ';
    }
    if (cleanup_.chinese_chars && unicode::is_chinese(c)) {
      out_.append(U' ', origin);
      put_decomposed(c, origin);
      out_.append(U' ', origin);
    } else {
      put_decomposed(c, origin);
    }
  }
  [[nodiscard]] bool needs_order() const noexcept { return needs_order_; }

 private:
  void put_decomposed(char32_t c, Offset origin) {
    if (!cleanup_.strip_accents || c < 0x80) return put_lower(c, origin);
    const std::u32string_view parts = unicode::decomposition(c, false);
    if (parts.empty()) return put_unaccented(c, origin);
    for (const char32_t part : parts) put_unaccented(part, origin);
  }

  void put_unaccented(char32_t c, Offset origin) {
    if (unicode::is_bert_accent(c)) return;
    needs_order_ |= unicode::combining_rank(c) != 0;
    put_lower(c, origin);
  }

  void put_lower(char32_t c, Offset origin) {
    if (!cleanup_.lowercase) return out_.append(c, origin);
    const unicode::Lower lower = unicode::lowercase(c);
    out_.append(lower.first, origin);
    if (lower.second != 0) out_.append(lower.second, origin);
  }

  BertCleanup cleanup_;
  NormalizedText& out_;
  bool needs_order_ = false;
};

template <class Put>
void for_each_code_point(const NormalizedText& text, Put&& put) {
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.text().substr(at));
    put(next.code_point, text.origin(at));
    at += next.bytes;
  }
}

}  // namespace

void apply(const BertCleanup& cleanup, NormalizedText& text) {
  if (text.plain() && clean_plain(cleanup, text)) return;
  NormalizedText out(text.first());
  out.reserve(text.size() + text.size() / 2);
  OnePass pass(cleanup, out);
  // Hangul decomposes arithmetically; such texts take the slow path, too.
  bool hangul = false;
  for_each_code_point(text, [&](char32_t c, Offset origin) {
    hangul |= c >= 0xAC00 && c <= 0xD7A3;
    pass.put(c, origin);
  });
  if (!cleanup.strip_accents || !(hangul || pass.needs_order())) {
    text = std::move(out);
    return;
  }
  apply(BertCleanup{cleanup.clean_text, cleanup.chinese_chars, false, false}, text);
  apply(NormalForm::nfd, text);
  NormalizedText stripped(text.first());
  stripped.reserve(text.size());
  for_each_code_point(text, [&](char32_t c, Offset origin) {
    if (!unicode::is_bert_accent(c)) stripped.append(c, origin);
  });
  text = std::move(stripped);
  if (cleanup.lowercase) apply(Lowercase{}, text);
}

void apply(Lowercase, NormalizedText& text) {
  if (text.plain()) {
    clean_plain({false, false, false, true}, text);
    return;
  }
  NormalizedText out(text.first());
  out.reserve(text.size());
  OnePass pass({false, false, false, true}, out);
  for_each_code_point(text, [&](char32_t c, Offset origin) { pass.put(c, origin); });
  text = std::move(out);
}

}  // namespace exeunt
