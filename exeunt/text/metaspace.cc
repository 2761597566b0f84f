// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/metaspace.h"

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

void parse_one(const Json& value, const std::string& where, Metaspace& out) {
  JsonObject object(value, where);
  const std::string type = object.choice("type", {"Metaspace", "WhitespaceSplit"});
  if (type == "WhitespaceSplit") {
    out.whitespace_split = true;
    object.finish();
    return;
  }
  out.mark = object.string("replacement");
  if (count_code_points(out.mark) != 1) object.fail("replacement", '\'' + out.mark + '\'', "one character");
  object.ignore("str_rep");
  out.split = object.boolean_or("split", true);
  const bool has_scheme = object.has("prepend_scheme");
  const std::string scheme = has_scheme ? object.choice("prepend_scheme", {"always", "first", "never"}) : "always";
  out.prepend = scheme == "always"  ? Metaspace::Prepend::always
                : scheme == "first" ? Metaspace::Prepend::first
                                    : Metaspace::Prepend::never;
  // Files of old versions have only this flag; newer ones must not contradict it.
  if (!object.boolean_or("add_prefix_space", true)) {
    if (has_scheme && scheme != "never") object.fail("prepend_scheme", scheme, "'never', as add_prefix_space is false");
    out.prepend = Metaspace::Prepend::never;
  }
  object.finish();
}

}  // namespace

Metaspace parse_metaspace(const Json& pre_tokenizer, const std::string& where) {
  Metaspace out;
  out.mark.clear();
  if (pre_tokenizer.is_null()) return out;
  JsonObject object(pre_tokenizer, where);
  if (object.choice("type", {"Sequence", "Metaspace", "WhitespaceSplit"}) != "Sequence") {
    parse_one(pre_tokenizer, where, out);
    return out;
  }
  const Json& list = object.get("pretokenizers");
  if (!list.is_array()) object.fail("pretokenizers", glimpse(list), "a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}: pretokenizers[{}]", where, i);
    if (!out.mark.empty()) throw_bad_file(place, "got a pre-tokenizer after Metaspace, want Metaspace last");
    parse_one(list[i], place, out);
  }
  object.finish();
  return out;
}

bool MetaspaceWords::next_chunk() {
  const std::string_view text = source_.text();
  const auto skip = [&](size_t at, bool spaces) {
    while (at < end_) {
      const Decoded c = decode_utf8(text.substr(at));
      if (unicode::is_space(c.code_point) != spaces) break;
      at += c.bytes;
    }
    return at;
  };
  if (metaspace_.whitespace_split) at_ = skip(at_, true);
  if (at_ == end_) return false;
  chunk_end_ = metaspace_.whitespace_split ? skip(at_, false) : end_;
  using Scheme = Metaspace::Prepend;
  const bool wanted =
      metaspace_.prepend == Scheme::always || (metaspace_.prepend == Scheme::first && source_.origin(at_).first == 0);
  put_mark_ = wanted && !metaspace_.mark.empty() && !at_mark(at_);
  return true;
}

bool MetaspaceWords::next(MarkedWord& word) {
  if (at_ == chunk_end_ && !next_chunk()) return false;
  const std::string_view text = source_.text();
  const bool marks = !metaspace_.mark.empty();
  word.first = word.rest = at_;
  word.mark = 0;
  if (put_mark_) {
    word.mark = metaspace_.mark.size();
    put_mark_ = false;
  } else if (marks && at_mark(at_)) {
    word.mark = metaspace_.mark.size();
    word.rest += text[at_] == ' ' ? 1 : word.mark;
  }
  at_ = word.rest;
  while (at_ < chunk_end_ && !(marks && at_mark(at_))) ++at_;
  if (!marks) at_ = chunk_end_;
  word.text.assign(metaspace_.mark, 0, word.mark).append(text.substr(word.rest, at_ - word.rest));
  return true;
}

NormalizedText mark_blanks(const Metaspace& metaspace, const NormalizedText& source, size_t begin, size_t end) {
  NormalizedText out(source.first());
  const std::string_view text = source.text();
  using Scheme = Metaspace::Prepend;
  const bool wanted =
      metaspace.prepend == Scheme::always || (metaspace.prepend == Scheme::first && source.origin(begin).first == 0);
  const bool marked = text[begin] == ' ' || text.substr(begin, metaspace.mark.size()) == metaspace.mark;
  if (wanted && !marked) out.append(metaspace.mark, source.origin(begin));
  for (size_t at = begin; at < end; ++at) {
    if (text[at] == ' ') {
      out.append(metaspace.mark, source.origin(at));
    } else {
      out.append(source, at, at + 1);
    }
  }
  return out;
}

}  // namespace exeunt
