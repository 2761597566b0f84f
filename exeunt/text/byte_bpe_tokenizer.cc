// SPDX-License-Identifier: Apache-2.0
// The byte-level BPE family: RoBERTa's vocab.json and merges.txt, and tokenizer.json with a BPE model.
#include <algorithm>
#include <iterator>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/byte_bpe.h"
#include "exeunt/text/byte_level.h"
#include "exeunt/text/families.h"
#include "exeunt/text/pipeline.h"

namespace exeunt {
namespace {

struct ByteLevel {
  bool add_prefix_space = true;
  bool split = true;  // by GPT-2's pattern; without it a range is one word
};

class ByteBpeTokenizer : public Tokenizer {
 public:
  ByteBpeTokenizer(Pipeline pipeline, ByteBpeModel model, ByteLevel level)
      : pipeline_(std::move(pipeline)), model_(std::move(model)), level_(level) {}

  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                const EncodeOptions& options) const override {
    ByteBpeModel::Scratch scratch;
    std::string prefixed;
    return pipeline_.encode(text, pair, options,
                            [&](const NormalizedText& source, size_t begin, size_t end, Tokens& out) {
                              add_words(source, begin, end, {scratch, prefixed, out});
                            });
  }
  [[nodiscard]] int vocabulary() const noexcept override { return pipeline_.id_limit(); }
  [[nodiscard]] std::string_view family() const noexcept override { return "bpe"; }
  [[nodiscard]] std::string token(int32_t id) const override { return pipeline_.token(id); }
  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const override { return pipeline_.id(token); }

 private:
  struct Work {
    ByteBpeModel::Scratch& scratch;
    std::string& prefixed;
    Tokens& out;
  };

  void add_words(const NormalizedText& source, size_t begin, size_t end, const Work& work) const {
    std::string_view body = source.text().substr(begin, end - begin);
    // A space prepended to the text has the origin of its first character.
    const size_t put = level_.add_prefix_space && body.front() != ' ' ? 1 : 0;
    if (put != 0) body = work.prefixed.assign(1, ' ').append(body);
    for (size_t at = 0; at < body.size() && !work.out.stop();) {
      const size_t word = level_.split ? word_end(body, at) : body.size();
      model_.encode(body.substr(at, word - at), work.scratch);
      for (const WordToken& token : work.scratch.tokens) {
        const size_t from = at + token.begin;
        const size_t to = at + token.end;
        work.out.add(token.id,
                     source.origin(begin + from - std::min(from, put), begin + std::max(to - put, size_t{1})));
      }
      at = word;
    }
  }

  Pipeline pipeline_;
  ByteBpeModel model_;
  ByteLevel level_;
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
  return std::make_unique<ByteBpeTokenizer>(Pipeline(std::move(parts), std::move(vocabulary)), std::move(model), level);
}

// RoBERTa's special tokens, as transformers 5 defines them. Settings in the configuration take precedence.
std::vector<AddedToken> roberta_added(const Vocabulary& vocabulary, const TokenizerConfig& config) {
  std::vector<AddedToken> added = config.added;
  for (const std::string& content :
       {config.cls_token.value_or("<s>"), config.pad_token.value_or("<pad>"), config.sep_token.value_or("</s>"),
        config.unk_token.value_or("<unk>"), config.mask_token.value_or("<mask>")}) {
    const bool known =
        std::any_of(added.begin(), added.end(), [&](const AddedToken& token) { return token.content == content; });
    if (known || !vocabulary.id(content)) continue;
    AddedToken token;
    token.content = content;
    token.normalized = false;
    token.special = true;
    added.push_back(std::move(token));
  }
  return added;
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
