// SPDX-License-Identifier: Apache-2.0
// The byte-level BPE family: RoBERTa's vocab.json and merges.txt, and tokenizer.json with a BPE model.
#include "exeunt/text/byte_bpe.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/tokenizer_json.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

constexpr size_t kMovedEnd = 0x144;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kMovedEnd> byte{};

  constexpr Alphabet() {
    byte.fill(-1);
    char32_t moved = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = itself ? b : moved++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

enum class CharKind : uint8_t { space, letter, number, other };

constexpr std::array<CharKind, 128> kAscii = [] {
  std::array<CharKind, 128> kinds{};
  for (size_t c = 0; c < kinds.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    kinds[c] = letter                 ? CharKind::letter
               : c >= '0' && c <= '9' ? CharKind::number
               : space                ? CharKind::space
                                      : CharKind::other;
  }
  return kinds;
}();

struct Seen {
  CharKind kind;
  uint8_t bytes;
};

Seen look(std::string_view text, size_t at) noexcept {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {kAscii[byte], 1};
  const Decoded c = decode_utf8(text.substr(at));
  if (unicode::is_letter(c.code_point)) return {CharKind::letter, c.bytes};
  if (unicode::is_number(c.code_point)) return {CharKind::number, c.bytes};
  return {unicode::is_space(c.code_point) ? CharKind::space : CharKind::other, c.bytes};
}

size_t run_end(std::string_view text, size_t at, CharKind kind) noexcept {
  while (at < text.size()) {
    const Seen next = look(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

// Bytes of 's 't 're 've 'm 'll 'd at `at`, or 0.
size_t contraction(std::string_view text, size_t at) noexcept {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = at + 2 < text.size() ? text[at + 2] : '\0';
  const bool three =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return three ? 3 : 0;
}

// The last space before a word belongs to that word: "a  b" is "a", " ", " b".
size_t space_end(std::string_view text, size_t at) noexcept {
  size_t last = at;
  size_t end = at;
  while (end < text.size()) {
    const Seen next = look(text, end);
    if (next.kind != CharKind::space) break;
    last = end;
    end += next.bytes;
  }
  return end == text.size() || last == at ? end : last;
}

}  // namespace

char32_t byte_character(uint8_t byte) noexcept {
  return kAlphabet.character[byte];
}

std::optional<std::string> token_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const Decoded c = decode_utf8(token);
    if (!c.valid || c.code_point >= kMovedEnd || kAlphabet.byte[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(static_cast<uint8_t>(kAlphabet.byte[c.code_point]));
    token.remove_prefix(c.bytes);
  }
  return bytes;
}

size_t word_end(std::string_view text, size_t at) noexcept {
  if (const size_t bytes = contraction(text, at)) return at + bytes;
  Seen first = look(text, at);
  size_t start = at;
  if (text[at] == ' ' && at + 1 < text.size()) {
    first = look(text, at + 1);
    ++start;
  }
  if (first.kind == CharKind::space) return space_end(text, at);
  return run_end(text, start + first.bytes, first.kind);
}

namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kShort = 48;  // up to here scanning all pairs beats a heap

uint64_t key_of(int32_t left, int32_t right) noexcept {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// The high bits of a product with an odd number that whoever chose the merges does not know.
size_t slot_of(uint64_t key, uint64_t factor, int shift) noexcept {
  return static_cast<size_t>((key * factor) >> shift);
}

std::string written(uint8_t byte) {
  std::string text;
  append_utf8(text, byte_character(byte));
  return text;
}

// The heap's top is the smallest rank, then the leftmost place.
bool later(const ByteBpeModel::Scratch::Candidate& a, const ByteBpeModel::Scratch::Candidate& b) noexcept {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

}  // namespace

ByteBpeModel::ByteBpeModel(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges, const Options& options)
    : factor_(hash_secret()[1] | 1U), options_(options) {
  const size_t size = std::bit_ceil(merges.size() * 2 + 2);
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t key = key_of(merges[rank].left, merges[rank].right);
    size_t slot = slot_of(key, factor_, shift_);
    while (slots_[slot].pair != UINT64_MAX && slots_[slot].pair != key) slot = (slot + 1) & (size - 1);
    slots_[slot] = {key, static_cast<uint32_t>(rank), merges[rank].result};  // of duplicate pairs the last one wins
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    bytes_[byte] = vocabulary.id(written(static_cast<uint8_t>(byte))).value_or(-1);
    fallback_[byte] = vocabulary.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  const auto limit = static_cast<size_t>(vocabulary.id_limit());
  std::vector<std::string> texts(limit);
  std::vector<std::string_view> keys(limit);
  for (size_t id = 0; id < limit; ++id) {
    texts[id] = token_bytes(vocabulary.token(static_cast<int32_t>(id))).value_or("");
    keys[id] = texts[id];
  }
  // Most words are one token. Knowing which tokens their merges produce saves the merging.
  std::vector<bool> whole(limit, options.ignore_merges);
  Scratch scratch;
  for (size_t id = 0; id < limit && !options.ignore_merges; ++id) {
    encode(texts[id], scratch);
    whole[id] = scratch.tokens.size() == 1 && scratch.tokens.front().id == static_cast<int32_t>(id);
  }
  words_ = ByteTrie(keys);
  whole_ = std::move(whole);
}

const ByteBpeModel::Slot* ByteBpeModel::find(int32_t left, int32_t right) const noexcept {
  const uint64_t key = key_of(left, right);
  for (size_t slot = slot_of(key, factor_, shift_);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].pair == key) return &slots_[slot];
    if (slots_[slot].pair == UINT64_MAX) return nullptr;
  }
}

void ByteBpeModel::encode(std::string_view word, Scratch& scratch) const {
  scratch.tokens.clear();
  if (word.empty()) return;
  if (const auto token = words_.find(word); token && whole_[static_cast<size_t>(*token)]) {
    scratch.tokens.push_back({*token, 0, static_cast<uint32_t>(word.size())});
    return;
  }
  const bool complete = start(word, scratch);
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  uint32_t at = 0;
  for (const Scratch::Symbol& symbol : scratch.symbols) {
    if (symbol.size == 0) continue;
    WordToken token{symbol.id, at, at + symbol.size};
    at = token.end;
    if (!complete) {
      token.begin = scratch.written[token.begin];
      token.end = scratch.written[token.end - 1] + 1;
    }
    scratch.tokens.push_back(token);
  }
}

// One symbol per byte. If bytes have no token, sizes and positions are those of the written form, as the oracle counts
// them: a dropped byte shifts everything after it to the left. Returns whether every byte had a token.
bool ByteBpeModel::start(std::string_view word, Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  const bool complete = std::ranges::all_of(word, [&](char c) { return bytes_[static_cast<uint8_t>(c)] >= 0; });
  scratch.written.clear();
  std::optional<Scratch::Symbol> unknown;
  for (size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    const uint32_t size = complete || byte_character(byte) < 0x80 ? 1 : 2;
    if (!complete) scratch.written.insert(scratch.written.end(), size, static_cast<uint32_t>(i));
    if (bytes_[byte] < 0) {
      add_missing(byte, scratch, unknown);
      continue;
    }
    if (unknown) symbols.push_back(*unknown);
    unknown.reset();
    symbols.push_back({bytes_[byte], size, 0, 0});
  }
  if (unknown) symbols.push_back(*unknown);
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].prev = i == 0 ? kNone : static_cast<uint32_t>(i - 1);
    symbols[i].next = i + 1 == symbols.size() ? kNone : static_cast<uint32_t>(i + 1);
  }
  return complete;
}

// An unknown byte is pending in `unknown`; fallback tokens overtake it, as in the oracle.
void ByteBpeModel::add_missing(uint8_t byte, Scratch& scratch, std::optional<Scratch::Symbol>& unknown) const {
  const std::string text = written(byte);
  const auto fallback = [&](char c) { return fallback_[static_cast<uint8_t>(c)]; };
  if (options_.byte_fallback && std::ranges::all_of(text, [&](char c) { return fallback(c) >= 0; })) {
    for (const char c : text) scratch.symbols.push_back({fallback(c), 1, 0, 0});
    return;
  }
  if (!options_.unknown) return;
  const auto size = static_cast<uint32_t>(text.size());
  if (unknown && options_.fuse_unknown) {
    unknown->size += size;
    return;
  }
  if (unknown) scratch.symbols.push_back(*unknown);
  unknown = Scratch::Symbol{*options_.unknown, size, 0, 0};
}

void ByteBpeModel::merge_short(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint32_t>& ranks = scratch.ranks;  // of the pair that begins at each symbol
  const auto rank_at = [&](size_t i) {
    const Slot* merge = i + 1 < symbols.size() ? find(symbols[i].id, symbols[i + 1].id) : nullptr;
    return merge == nullptr ? kNone : merge->rank;
  };
  ranks.resize(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) ranks[i] = rank_at(i);
  for (;;) {
    const auto best = static_cast<size_t>(std::ranges::min_element(ranks) - ranks.begin());
    if (best == ranks.size() || ranks[best] == kNone) return;
    symbols[best].id = find(symbols[best].id, symbols[best + 1].id)->result;
    symbols[best].size += symbols[best + 1].size;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    ranks.erase(ranks.begin() + static_cast<ptrdiff_t>(best) + 1);
    ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
}

// Puts the pair that begins at `place` on the heap, if it can be merged.
void ByteBpeModel::offer(Scratch& scratch, uint32_t place) const {
  const Scratch::Symbol& left = scratch.symbols[place];
  if (left.next == kNone) return;
  const Slot* merge = find(left.id, scratch.symbols[left.next].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, place, merge->result});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
}

// The same in n log n: a heap of candidates, some of them stale when they reach the top.
void ByteBpeModel::merge_long(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  scratch.heap.clear();
  for (uint32_t i = 0; i < symbols.size(); ++i) offer(scratch, i);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), later);
    const Scratch::Candidate top = scratch.heap.back();
    scratch.heap.pop_back();
    Scratch::Symbol& left = symbols[top.place];
    if (left.size == 0 || left.next == kNone) continue;
    Scratch::Symbol& right = symbols[left.next];
    const Slot* merge = find(left.id, right.id);
    if (merge == nullptr || merge->rank != top.rank) continue;
    left.id = top.result;
    left.size += right.size;
    left.next = right.next;
    right.size = 0;
    if (left.next != kNone) symbols[left.next].prev = top.place;
    if (left.prev != kNone) offer(scratch, left.prev);
    offer(scratch, top.place);
  }
}

namespace {

struct ByteLevel {
  bool add_prefix_space = true;
  bool split = true;  // by GPT-2's pattern; without it a range is one word
};

struct ByteBpeWords {
  struct Scratch {
    ByteBpeModel::Scratch model = {};
    std::string prefixed = {};
  };
  ByteBpeModel model;
  ByteLevel level;

  void add(const NormalizedText& source, size_t begin, size_t end, Scratch& scratch, Tokens& out) const {
    std::string_view body = source.text().substr(begin, end - begin);
    // A space prepended to the text has the origin of its first character.
    const size_t put = level.add_prefix_space && body.front() != ' ' ? 1 : 0;
    if (put != 0) body = scratch.prefixed.assign(1, ' ').append(body);
    for (size_t at = 0; at < body.size() && !out.stop();) {
      const size_t word = level.split ? word_end(body, at) : body.size();
      model.encode(body.substr(at, word - at), scratch.model);
      for (const WordToken& token : scratch.model.tokens) {
        const size_t from = at + token.begin, to = at + token.end;
        out.add(token.id, source.origin(begin + from - std::min(from, put), begin + std::max(to - put, size_t{1})));
      }
      at = word;
    }
  }
};

struct Pair {
  std::string_view left, right;
};

int32_t find_token(const Vocabulary& vocabulary, std::string_view token, const std::string& where) {
  const auto id = vocabulary.id(token);
  if (!id) throw_bad_file(where, "'{}' is not in the vocabulary", token);
  return *id;
}

BpeMerge read_merge(const Vocabulary& vocabulary, const Pair& pair, const std::string& where) {
  if (pair.left.empty() || pair.right.empty()) throw_bad_file(where, "a side of the merge is empty");
  return {find_token(vocabulary, pair.left, where), find_token(vocabulary, pair.right, where),
          find_token(vocabulary, std::string(pair.left).append(pair.right), where)};
}

// "a b"
Pair split_merge(std::string_view text, const std::string& where) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) {
    throw_bad_file(where, "got '{}', want two tokens separated by one space", text);
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

std::vector<BpeMerge> read_merges(const Json& list, const Vocabulary& vocabulary, const std::string& where) {
  if (!list.is_array()) throw_bad_file(where, "got {}, want a list", glimpse(list));
  std::vector<BpeMerge> merges;
  merges.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}: merge {}", where, i);
    const Json& item = list[i];
    if (item.is_string()) {
      merges.push_back(read_merge(vocabulary, split_merge(item.get_ref<const std::string&>(), place), place));
      continue;
    }
    const bool fits = item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
    if (!fits) throw_bad_file(place, "got {}, want two tokens", glimpse(item));
    const Pair pair{item[0].get_ref<const std::string&>(), item[1].get_ref<const std::string&>()};
    merges.push_back(read_merge(vocabulary, pair, place));
  }
  return merges;
}

std::vector<BpeMerge> parse_merges_txt(std::string_view text, const Vocabulary& vocabulary, const std::string& where) {
  std::vector<BpeMerge> merges;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (number == 1 && line.substr(0, 8) == "#version") continue;
    const std::string place = fmt::format("{}: line {}", where, number);
    if (find_invalid_utf8(line)) throw_bad_file(place, "the line is not UTF-8");
    merges.push_back(read_merge(vocabulary, split_merge(line, place), place));
  }
  return merges;
}

void refuse_unless_empty(JsonObject& model, std::string_view name) {
  const std::string value = model.string_or(name, "");
  if (!value.empty()) model.fail(name, '\'' + value + '\'', "none: byte-level BPE marks word starts with spaces");
}

ByteLevel parse_byte_level(const Json& value, const std::string& where) {
  if (value.is_null()) throw_bad_file(where, "got none, want ByteLevel: only byte-level BPE is supported");
  JsonObject object(value, where);
  if (object.choice("type", {"ByteLevel", "Sequence"}) == "Sequence") {
    const Json& list = object.get("pretokenizers");
    if (!list.is_array() || list.size() != 1) object.fail("pretokenizers", glimpse(list), "ByteLevel alone");
    object.finish();
    return parse_byte_level(list[0], where + ": pretokenizers[0]");
  }
  ByteLevel level;
  level.add_prefix_space = object.boolean_or("add_prefix_space", true);
  level.split = object.boolean_or("use_regex", true);
  object.ignore("trim_offsets");  // handled by the post-processor
  object.finish();
  return level;
}

std::unique_ptr<const Tokenizer> make(Pipeline::Parts parts, Vocabulary vocabulary, ByteBpeModel model,
                                      ByteLevel level) {
  return std::make_unique<PipelineTokenizer<ByteBpeWords>>("bpe", Pipeline(std::move(parts), std::move(vocabulary)),
                                                           ByteBpeWords{std::move(model), level});
}

// RoBERTa's special tokens, as transformers 5 defines them. Settings in the configuration take precedence.
std::vector<AddedToken> roberta_added(const Vocabulary& vocabulary, const TokenizerConfig& config) {
  AddedTokenList added;
  for (const AddedToken& token : config.added) added.add(token);
  for (const std::string& content :
       {config.cls_token.value_or("<s>"), config.pad_token.value_or("<pad>"), config.sep_token.value_or("</s>"),
        config.unk_token.value_or("<unk>"), config.mask_token.value_or("<mask>")}) {
    if (vocabulary.id(content)) added.add({.content = content, .normalized = false, .special = true});
  }
  return added.take();
}

}  // namespace

std::unique_ptr<const Tokenizer> make_byte_bpe_tokenizer(TokenizerJson json) {
  const std::string where = json.where + ": model";
  JsonObject model(json.model, where);
  Vocabulary vocabulary(read_token_ids(model.get("vocab"), where + ": vocab"), where + ": vocab");
  const std::vector<BpeMerge> merges = read_merges(model.get("merges"), vocabulary, where + ": merges");
  ByteBpeModel::Options options;
  options.fuse_unknown = model.boolean_or("fuse_unk", false);
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  if (model.find("unk_token") != nullptr) {
    options.unknown = find_token(vocabulary, model.string("unk_token"), where + ": field 'unk_token'");
  }
  if (const double dropout = model.number_or("dropout", 0); dropout != 0) {
    model.fail("dropout", fmt::format("{}", dropout), "none: results must not be random");
  }
  refuse_unless_empty(model, "continuing_subword_prefix");
  refuse_unless_empty(model, "end_of_word_suffix");
  model.finish();
  const ByteLevel level = parse_byte_level(json.pre_tokenizer, json.where + ": pre_tokenizer");
  ByteBpeModel bpe(vocabulary, merges, options);
  return make(std::move(json.parts), std::move(vocabulary), std::move(bpe), level);
}

std::unique_ptr<const Tokenizer> make_byte_bpe_tokenizer(const BpeFiles& files, const TokenizerConfig& config) {
  const std::string& where = files.vocab_where;
  Vocabulary vocabulary(read_token_ids(parse_json(files.vocab_json, where), where), where);
  const std::vector<BpeMerge> merges = parse_merges_txt(files.merges_txt, vocabulary, files.merges_where);
  Pipeline::Parts parts;
  parts.where = where;
  parts.added = roberta_added(vocabulary, config);
  parts.post = roberta_post_processor(find_token(vocabulary, config.cls_token.value_or("<s>"), where),
                                      find_token(vocabulary, config.sep_token.value_or("</s>"), where));
  const ByteLevel level{.add_prefix_space = config.add_prefix_space.value_or(false), .split = true};
  parts.post.trim_offsets = true;
  parts.post.add_prefix_space = level.add_prefix_space;
  ByteBpeModel bpe(vocabulary, merges, {});
  return make(std::move(parts), std::move(vocabulary), std::move(bpe), level);
}

std::unique_ptr<const Tokenizer> read_byte_bpe_tokenizer(const ReadPath& vocab_json, const ReadPath& merges_txt,
                                                         const TokenizerConfig& config) {
  const std::string vocab = read_text(vocab_json);
  const std::string merges = read_text(merges_txt);
  return make_byte_bpe_tokenizer(BpeFiles{vocab, merges, vocab_json.string(), merges_txt.string()}, config);
}

}  // namespace exeunt
