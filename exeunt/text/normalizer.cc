// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/normalizer.h"

#include <algorithm>
#include <optional>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/graphemes.h"
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

namespace {

size_t most_bytes(const NormalizedText& text) {
  constexpr size_t kAdded = 4096;  // by steps that prepend
  return kMaxGrowth * text.size() + kAdded;
}

void apply_step(const NormalizerStep& step, NormalizedText& text, size_t most) {
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

constexpr size_t kPiece = size_t{1} << 14;  // bytes of a long text that are normalised at once

bool is_between(char32_t c, char32_t first, char32_t last) noexcept {
  return c >= first && c <= last;
}

// Letters and digits that no step joins with what is before them: no marks, and no Hangul vowels and tails.
bool begins_part(char32_t c) noexcept {
  if (c < 0x80) return is_between(c, '0', '9') || is_between(c, 'A', 'Z') || is_between(c, 'a', 'z');
  if (is_between(c, 0x1160, 0x11FF) || is_between(c, 0xA960, 0xA97F) || is_between(c, 0xD7B0, 0xD7FF)) return false;
  return unicode::is_letter(c) && !unicode::is_mark(c) && unicode::combining_rank(c) == 0;
}

// The same for what is after them: Hangul leads are joined.
bool ends_part(char32_t c) noexcept {
  if (is_between(c, 0x1160, 0x11FF)) return unicode::is_letter(c);
  return begins_part(c) && !is_between(c, 0x1100, 0x115F);
}

// What is on both sides of a cut. Nothing joins a space with a letter, or with another space but steps for white space.
struct Sides {
  bool parted = false, space_before = false, space_after = false;
};

Sides sides_of(std::string_view before, std::string_view after) {
  if (before.empty() || after.empty()) return {};
  const std::string_view last = before.substr(last_code_point(before)), next = after.substr(0, code_point_bytes(after));
  const char32_t left = decode_utf8(last).code_point, right = decode_utf8(next).code_point;
  const bool parted = (left == ' ' || ends_part(left)) && (right == ' ' || begins_part(right)) &&
                      grapheme_bytes(std::string(last).append(next)) == last.size();
  return {.parted = parted, .space_before = left == ' ', .space_after = right == ' '};
}

// Nor must what precedes the character before a cut join it: a letter before a letter, or no white space before a
// space.
bool stands_alone(std::string_view before, std::string_view character) {
  if (character != " ") return sides_of(before, character).parted && !before.ends_with(' ');
  if (before.empty()) return false;
  const std::string_view last = before.substr(last_code_point(before));
  return !unicode::is_space(decode_utf8(last).code_point) && grapheme_bytes(std::string(last) + ' ') == last.size();
}

bool joins_spaces(const NormalizerStep& step) {
  const auto* replace = std::get_if<Replace>(&step);
  return (replace != nullptr && replace->pattern.find(' ') != std::string::npos) ||
         std::holds_alternative<ReplaceBlanks>(step);
}

bool drops_spaces(const NormalizerStep& step) {
  return std::holds_alternative<Strip>(step) || std::holds_alternative<JoinWords>(step);
}

// A pattern of letters could match across a cut, and where it matches in a run of them depends on the run's beginning.
bool has_letter_pattern(const NormalizerStep& step) {
  const auto* replace = std::get_if<Replace>(&step);
  if (replace == nullptr) return false;
  for (std::string_view rest = replace->pattern; !rest.empty();) {
    const Decoded c = decode_utf8(rest);
    if (begins_part(c.code_point) || ends_part(c.code_point)) return true;
    rest.remove_prefix(c.bytes);
  }
  return false;
}

bool allows(const NormalizerStep& step, const Sides& sides, Cut cut) {
  if (!sides.parted || has_letter_pattern(step)) return false;
  if (sides.space_before && sides.space_after && (joins_spaces(step) || drops_spaces(step))) return false;
  return cut == Cut::at_edge || !drops_spaces(step) || !(sides.space_before || sides.space_after);
}

// Do the characters before and after a place stay letters, digits or spaces that nothing joins, step after step? Marks,
// clusters, patterns and runs of white space then end or begin there.
bool can_cut(const Normalizer& normalizer, std::string_view before, std::string_view after, Cut cut) {
  NormalizedText left(before, 0), right(after, 0);
  for (const NormalizerStep& step : normalizer) {
    if (!allows(step, sides_of(left.text(), right.text()), cut)) return false;
    if (std::holds_alternative<Prepend>(step) || (drops_spaces(step) && cut == Cut::at_edge)) continue;
    apply_step(step, left, most_bytes(left));
    apply_step(step, right, most_bytes(right));
  }
  return sides_of(left.text(), right.text()).parted;
}

}  // namespace

void normalize(const Normalizer& normalizer, NormalizedText& text) {
  const size_t most = most_bytes(text);
  for (const NormalizerStep& step : normalizer) apply_step(step, text, most);
}

NormalizedText normalize_long(const Normalizer& normalizer, std::string_view text, uint32_t first) {
  if (text.size() <= kPiece || is_ascii(text)) {  // ASCII needs no origins
    NormalizedText whole(text, first);
    normalize(normalizer, whole);
    return whole;
  }
  NormalizedText whole(first);
  Normalizer steps = normalizer;
  while (!text.empty()) {
    size_t size = 0;
    for (size_t wanted = kPiece; size == 0; wanted *= 2)
      size = wanted < text.size() ? find_cut(normalizer, text, wanted) : text.size();
    NormalizedText piece(text.substr(0, size), first);
    normalize(steps, piece);
    whole.append(piece, 0, piece.size());
    // What is prepended is so once.
    std::erase_if(steps, [](const NormalizerStep& step) { return std::holds_alternative<Prepend>(step); });
    first += static_cast<uint32_t>(count_code_points(text.substr(0, size)));
    text.remove_prefix(size);
  }
  return whole;
}

size_t find_cut(const Normalizer& normalizer, std::string_view text, size_t at, Cut cut) {
  constexpr int kTries = 256;  // code points
  size_t end = std::min(at, text.size());
  while (end > 0 && end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0U) == 0x80U) --end;
  for (int tries = 0; tries < kTries && end > 0 && end < text.size(); ++tries) {
    const size_t before = last_code_point(text.substr(0, end));
    const std::string_view left = text.substr(before, end - before), right = text.substr(end);
    if (stands_alone(text.substr(0, before), left) &&
        can_cut(normalizer, left, right.substr(0, code_point_bytes(right)), cut))
      return end;
    end = before;
  }
  return 0;
}

}  // namespace exeunt
