// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/normalizer.h"

#include <algorithm>
#include <optional>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

constexpr size_t kMaxPattern = 256;

NormalizerStep parse_replace(JsonObject& object) {
  Replace step;
  step.content = object.string("content");
  JsonObject pattern(object.get("pattern"), object.where() + ": pattern");
  if (pattern.has("String")) {
    step.pattern = pattern.string("String");
    // A long one could make the search quadratic.
    if (step.pattern.empty() || step.pattern.size() > kMaxPattern) {
      pattern.fail("String", fmt::format("{} bytes", step.pattern.size()),
                   fmt::format("a non-empty text of at most {}", kMaxPattern));
    }
    return step;
  }
  // There is no regular-expression engine; the patterns of ALBERT and of DeBERTa are recognised by their text.
  constexpr std::string_view kSpaces = " {2,}", kBlanks = R"(\s{2,}|[\n\r\t])";
  const std::string regex = pattern.string("Regex");
  if (regex == kBlanks) return ReplaceBlanks{std::move(step.content)};
  if (regex != kSpaces) {
    pattern.fail("Regex", fmt::format("'{}'", regex),
                 fmt::format("'{}' or '{}', the only ones supported", kSpaces, kBlanks));
  }
  return Replace{" ", std::move(step.content), true};
}

BertCleanup parse_bert(JsonObject& object) {
  BertCleanup step;
  step.clean_text = object.boolean_or("clean_text", true);
  step.chinese_chars = object.boolean_or("handle_chinese_chars", true);
  step.lowercase = object.boolean_or("lowercase", true);
  step.strip_accents = object.boolean_or("strip_accents", step.lowercase);
  return step;
}

void parse_into(const Json& value, const std::string& where, Normalizer& out) {
  JsonObject object(value, where);
  const std::string type =
      object.choice("type", {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Precompiled", "Prepend",
                             "Replace", "Sequence", "Strip", "StripAccents"});
  if (type == "Sequence") {
    const Json& list = object.get("normalizers");
    if (!list.is_array()) object.fail("normalizers", glimpse(list), "a list");
    for (size_t i = 0; i < list.size(); ++i) parse_into(list[i], fmt::format("{}: normalizers[{}]", where, i), out);
  }
  if (type == "BertNormalizer") out.emplace_back(parse_bert(object));
  if (type == "Lowercase") out.emplace_back(Lowercase{});
  if (type == "NFC") out.emplace_back(NormalForm::nfc);
  if (type == "NFD") out.emplace_back(NormalForm::nfd);
  if (type == "NFKC") out.emplace_back(NormalForm::nfkc);
  if (type == "NFKD") out.emplace_back(NormalForm::nfkd);
  if (type == "Precompiled") out.emplace_back(parse_charsmap(object.string("precompiled_charsmap"), where));
  if (type == "Prepend") out.emplace_back(Prepend{object.string("prepend")});
  if (type == "Replace") out.emplace_back(parse_replace(object));
  if (type == "Strip") {
    out.emplace_back(Strip{object.boolean_or("strip_left", true), object.boolean_or("strip_right", true)});
  }
  if (type == "StripAccents") out.emplace_back(StripAccents{});
  object.finish();
}

void check_size(size_t size, size_t most) {
  if (size > most) throw_grown_too_long();
}

// Steps that can make a text much longer stop before it has more than `most` bytes.
void apply(const std::shared_ptr<const Charsmap>& charsmap, NormalizedText& text, size_t most) {
  apply_charsmap(*charsmap, text, most);
}

template <class Dropped>
void drop(const Dropped& dropped, NormalizedText& text) {
  if (text.plain()) return;  // nothing that is dropped is ASCII
  NormalizedText out(text.first());
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.text().substr(at));
    if (!dropped(next.code_point)) out.append(text, at, at + next.bytes);
    at += next.bytes;
  }
  text = std::move(out);
}

void apply(StripAccents, NormalizedText& text) {
  drop(unicode::is_mark, text);
}

void apply(StripCombining, NormalizedText& text) {
  drop([](char32_t c) { return unicode::combining_rank(c) != 0; }, text);
}

void apply(JoinWords, NormalizedText& text) {
  const auto is_blank = [](char32_t c) { return unicode::is_space(c) || (c >= 0x1C && c <= 0x1F); };
  NormalizedText out(text.first());
  out.reserve(text.size());
  std::optional<Offset> blank;  // the first one since the last word
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.text().substr(at));
    if (is_blank(next.code_point)) {
      if (!blank) blank = text.origin(at);
    } else {
      if (blank && !out.empty()) out.append(" ", *blank);
      blank.reset();
      out.append(text, at, at + next.bytes);
    }
    at += next.bytes;
  }
  text = std::move(out);
}

void apply(const Strip& strip, NormalizedText& text) {
  size_t begin = 0;
  size_t end = text.size();
  while (strip.left && begin < end) {
    const Decoded next = decode_utf8(text.text().substr(begin));
    if (!unicode::is_space(next.code_point)) break;
    begin += next.bytes;
  }
  while (strip.right && begin < end) {
    const size_t at = last_code_point(text.text().substr(0, end));
    if (!unicode::is_space(decode_utf8(text.text().substr(at)).code_point)) break;
    end = at;
  }
  if (begin == 0 && end == text.size()) return;
  NormalizedText out(text.first());
  out.append(text, begin, end);
  text = std::move(out);
}

void apply(const Prepend& prepend, NormalizedText& text, size_t most) {
  if (text.empty()) return;
  check_size(prepend.text.size(), most);
  NormalizedText out(text.first());
  out.reserve(prepend.text.size() + text.size());
  out.append(prepend.text, text.origin(0));  // what is prepended has the origin of the first code point
  out.append(text, 0, text.size());
  text = std::move(out);
}

// End of the match at `at`, or `at` if there is none.
size_t match_end(const Replace& replace, std::string_view text, size_t at) {
  size_t end = at;
  size_t count = 0;
  while (text.compare(end, replace.pattern.size(), replace.pattern) == 0) {
    end += replace.pattern.size();
    if (++count == 1 && !replace.runs) return end;
  }
  return count >= 2 ? end : at;
}

void apply(const Replace& replace, NormalizedText& text, size_t most) {
  size_t found = text.text().find(replace.pattern);
  if (found == std::string_view::npos) return;
  NormalizedText out(text.first());
  size_t done = 0;
  while (found != std::string_view::npos) {
    const size_t end = match_end(replace, text.text(), found);
    if (end > found) {
      check_size(out.size() + replace.content.size(), most);
      out.append(text, done, found);
      out.append(replace.content, text.origin(end - 1));  // the new text has the origin of the last replaced code point
      done = end;
    }
    found = text.text().find(replace.pattern, std::max(end, found + 1));
  }
  if (done == 0) return;
  out.append(text, done, text.size());
  text = std::move(out);
}

void apply(const ReplaceBlanks& replace, NormalizedText& text, size_t most) {
  const auto is_blank = [](char32_t c) { return unicode::is_space(c); };
  const std::string_view source = text.text();
  NormalizedText out(text.first());
  size_t done = 0;
  for (size_t at = 0; at < source.size();) {
    const Decoded first = decode_utf8(source.substr(at));
    size_t end = at + first.bytes;
    if (!is_blank(first.code_point)) {
      at = end;
      continue;
    }
    bool several = false;
    while (end < source.size()) {
      const Decoded next = decode_utf8(source.substr(end));
      if (!is_blank(next.code_point)) break;
      several = true;
      end += next.bytes;
    }
    if (several || source[at] == '\n' || source[at] == '\r' || source[at] == '\t') {
      check_size(out.size() + replace.content.size(), most);
      out.append(text, done, at);
      out.append(replace.content, text.origin(end - 1));
      done = end;
    }
    at = end;
  }
  if (done == 0) return;
  out.append(text, done, text.size());
  text = std::move(out);
}

}  // namespace

Normalizer parse_normalizer(const Json& value, const std::string& where) {
  Normalizer out;
  if (!value.is_null()) parse_into(value, where, out);
  return out;
}

void throw_grown_too_long() {
  throw Error(Code::bad_file,
              fmt::format("the tokenizer's normalizer makes a text more than {} times longer", kMaxGrowth),
              "use a tokenizer from a source you trust");
}

void normalize(const Normalizer& normalizer, NormalizedText& text) {
  constexpr size_t kAdded = 4096;  // by steps that prepend
  const size_t most = kMaxGrowth * text.size() + kAdded;
  for (const NormalizerStep& step : normalizer) {
    std::visit(
        [&](const auto& s) {
          if constexpr (requires { apply(s, text, most); }) {
            apply(s, text, most);
          } else {
            apply(s, text);
          }
        },
        step);
    check_size(text.size(), most);
  }
}

}  // namespace exeunt
