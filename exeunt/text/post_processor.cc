// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/post_processor.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

using Piece = TemplatePiece::Kind;

// Of a template, and of ids in each: both together multiply.
constexpr size_t kMaxPieces = 64;

// ["[SEP]", 102], as BertProcessing and RobertaProcessing write a token.
int32_t read_token_pair(JsonObject& object, std::string_view name) {
  const Json& value = object.get(name);
  const bool fits = value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_number_unsigned() &&
                    value[1].get<uint64_t>() <= static_cast<uint64_t>(kMaxTokenId);
  if (!fits) object.fail(name, glimpse(value), "a list of a token and its id");
  return value[1].get<int32_t>();
}

Template read_template(const Json& list, const Json& specials, const std::string& where) {
  if (!list.is_array()) throw_bad_file(where, "got {}, want a list", glimpse(list));
  if (list.size() > kMaxPieces) throw_bad_file(where, "got {} pieces, want at most {}", list.size(), kMaxPieces);
  Template pieces;
  for (const Json& item : list) {
    if (!item.is_object() || item.size() != 1)
      throw_bad_file(where, "got {}, want one Sequence or SpecialToken", glimpse(item));
    const std::string kind = item.begin().key();
    if (kind != "Sequence" && kind != "SpecialToken") {
      throw_bad_file(where, "got '{}', want Sequence or SpecialToken", kind);
    }
    JsonObject body(item.begin().value(), where + ": " + kind);
    const std::string id = body.string("id");
    TemplatePiece piece;
    piece.type = static_cast<uint8_t>(body.integer("type_id", 0, 255));
    if (kind == "Sequence") {
      if (id != "A" && id != "B") body.fail("id", fmt::format("'{}'", id), "A or B");
      piece.kind = id == "A" ? Piece::first : Piece::second;
    } else {
      piece.kind = Piece::special;
      const auto found = specials.find(id);
      if (found == specials.end()) throw_bad_file(body.where(), "special token '{}' is not in special_tokens", id);
      JsonObject special(*found, where + ": special token '" + id + "'");
      const Json& ids = special.get("ids");
      if (!ids.is_array() || ids.size() > kMaxPieces) {
        special.fail("ids", ids.is_array() ? fmt::format("{} ids", ids.size()) : glimpse(ids),
                     fmt::format("a list of at most {} ids", kMaxPieces));
      }
      for (const Json& value : ids) {
        const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMaxTokenId);
        if (!fits) special.fail("ids", glimpse(value), fmt::format("ids from 0 to {}", kMaxTokenId));
        piece.ids.push_back(value.get<int32_t>());
      }
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

bool uses(const Template& pieces, Piece kind) {
  return std::ranges::any_of(pieces, [&](const TemplatePiece& piece) { return piece.kind == kind; });
}

void read_templates(JsonObject& object, PostProcessor& post) {
  static const Json kNoTokens = Json::object();
  const Json* specials = object.find("special_tokens");
  if (specials == nullptr) specials = &kNoTokens;
  if (!specials->is_object()) object.fail("special_tokens", glimpse(*specials), "an object");
  post.single = read_template(object.get("single"), *specials, object.where() + ": single");
  post.pair = read_template(object.get("pair"), *specials, object.where() + ": pair");
  if (uses(post.single, Piece::second)) throw_bad_file(object.where(), "single: got sequence B, want A alone");
  if (!uses(post.pair, Piece::first) || !uses(post.pair, Piece::second)) {
    throw_bad_file(object.where(), "pair: want both sequences A and B");
  }
}

void apply_post_processor(const Json& value, const std::string& where, PostProcessor& post) {
  JsonObject object(value, where);
  const std::string type =
      object.choice("type", {"BertProcessing", "RobertaProcessing", "TemplateProcessing", "ByteLevel", "Sequence"});
  if (type == "Sequence") {
    const Json& list = object.get("processors");
    if (!list.is_array()) object.fail("processors", glimpse(list), "a list");
    int adding = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}: processors[{}]", where, i);
      adding += JsonObject(list[i], place).string_or("type", "") == "ByteLevel" ? 0 : 1;
      if (adding > 1) throw_bad_file(place, "got a second processor that adds tokens, want at most one");
      apply_post_processor(list[i], place, post);
    }
    return;
  }
  if (type == "TemplateProcessing") {
    read_templates(object, post);
    return;
  }
  if (type == "ByteLevel" || type == "RobertaProcessing") {
    post.trim_offsets = object.boolean_or("trim_offsets", true);
    post.add_prefix_space = object.boolean_or("add_prefix_space", true);
  }
  if (type == "ByteLevel") return;
  const int32_t cls = read_token_pair(object, "cls");
  const int32_t sep = read_token_pair(object, "sep");
  const PostProcessor made =
      type == "BertProcessing" ? bert_post_processor(cls, sep) : roberta_post_processor(cls, sep);
  post.single = made.single;
  post.pair = made.pair;
}

// Copies the first `count` tokens of a text into the result.
void put(const Tokens& tokens, size_t count, uint8_t type, Encoding& out) {
  const auto end = static_cast<ptrdiff_t>(count);
  out.ids.insert(out.ids.end(), tokens.ids.begin(), tokens.ids.begin() + end);
  out.offsets.insert(out.offsets.end(), tokens.offsets.begin(), tokens.offsets.begin() + end);
  out.types.resize(out.ids.size(), type);
}

}  // namespace

Blanks count_blanks(std::string_view token) noexcept {
  Blanks blanks;
  bool inside = false;
  while (!token.empty()) {
    const Decoded next = decode_utf8(token);
    const bool blank = next.code_point == 0x120 || unicode::is_space(next.code_point);
    inside |= !blank;
    if (!inside) ++blanks.leading;
    blanks.trailing = blank ? blanks.trailing + 1 : 0;
    token.remove_prefix(next.bytes);
  }
  return blanks;
}

Offset trim_blanks(Offset offset, const Blanks& blanks, bool add_prefix_space, bool first) noexcept {
  const bool put = add_prefix_space && blanks.leading == 1 && (first || offset.first == 0);
  if (!put) offset.first = std::min(offset.first + blanks.leading, offset.second);
  if (offset.second >= blanks.trailing) offset.second = std::max(offset.second - blanks.trailing, offset.first);
  return offset;
}

PostProcessor bert_post_processor(int32_t cls, int32_t sep) {
  PostProcessor post;
  post.single = {{Piece::special, {cls}, 0}, {Piece::first, {}, 0}, {Piece::special, {sep}, 0}};
  post.pair = post.single;
  post.pair.insert(post.pair.end(), {{Piece::second, {}, 1}, {Piece::special, {sep}, 1}});
  return post;
}

PostProcessor roberta_post_processor(int32_t cls, int32_t sep) {
  PostProcessor post = bert_post_processor(cls, sep);
  post.pair = post.single;
  post.pair.insert(post.pair.end(), {{Piece::special, {sep}, 0}, {Piece::second, {}, 0}, {Piece::special, {sep}, 0}});
  return post;
}

PostProcessor parse_post_processor(const Json& value, const std::string& where) {
  PostProcessor post;
  if (!value.is_null()) apply_post_processor(value, where, post);
  return post;
}

std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t room, bool larger_half_first) noexcept {
  if (first + second <= room) return {first, second};
  const size_t shorter = std::min(first, second);
  size_t less = shorter;
  size_t more = room - std::min(room, shorter);
  if (shorter > room / 2) {  // both are truncated: the shorter one, or the first if equal, gets the smaller half
    less = room / 2;
    more = room - less;
  }
  return first > second || (shorter > room / 2 && larger_half_first) ? std::pair(more, less) : std::pair(less, more);
}

Encoding finish(const PostProcessor& post, Tokens first, std::optional<Tokens> second, const EncodeOptions& options) {
  const Template& pieces = second ? post.pair : post.single;
  size_t specials = 0;
  if (options.special_tokens) {
    for (const TemplatePiece& piece : pieces) specials += piece.ids.size();
  }
  if (options.max_length < 0 || static_cast<size_t>(options.max_length) < specials) {
    throw Error(Code::usage, fmt::format("max_length: got {}, want at least {}, the number of special tokens",
                                         options.max_length, specials));
  }
  const size_t room = static_cast<size_t>(options.max_length) - specials;
  if (options.keep_end && !second) first.drop_first(first.ids.size() - std::min(first.ids.size(), room));
  const size_t second_size = second ? second->ids.size() : 0;
  const auto [keep_first, keep_second] = longest_first(first.ids.size(), second_size, room, post.larger_half_first);

  Encoding out;
  out.truncated = keep_first < first.ids.size() || first.cut || keep_second < second_size || (second && second->cut);
  const size_t total = keep_first + keep_second + specials;
  out.ids.reserve(total);
  out.types.reserve(total);
  out.offsets.reserve(total);
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == Piece::first) put(first, keep_first, piece.type, out);
    if (piece.kind == Piece::second) put(*second, keep_second, piece.type, out);
    if (piece.kind != Piece::special || !options.special_tokens) continue;
    out.ids.insert(out.ids.end(), piece.ids.begin(), piece.ids.end());
    out.types.resize(out.ids.size(), piece.type);
    out.offsets.resize(out.ids.size(), Offset{0, 0});
  }
  return out;
}

}  // namespace exeunt
