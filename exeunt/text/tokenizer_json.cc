// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/tokenizer_json.h"

#include <algorithm>
#include <map>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"

namespace exeunt {
namespace {

// Files of old versions have no type; it is inferred from the fields.
std::string model_type_of(const Json& model, const std::string& where) {
  JsonObject object(model, where);
  if (object.has("type")) return object.choice("type", {"WordPiece", "Unigram", "BPE"});
  if (object.has("merges")) return "BPE";
  if (object.has("continuing_subword_prefix") || object.has("max_input_chars_per_word")) return "WordPiece";
  if (model.contains("vocab") && model["vocab"].is_array()) return "Unigram";
  throw_bad_file(where, "field 'type' is missing: want WordPiece, Unigram or BPE");
}

// One named special token of tokenizer_config.json or special_tokens_map.json: a string, or an object with flags.
std::optional<AddedToken> read_special(const Json& value, const std::string& where) {
  if (value.is_null()) return std::nullopt;
  AddedToken token{.normalized = false, .special = true};
  if (value.is_string()) {
    token.content = value.get<std::string>();
  } else {
    JsonObject object(value, where);
    read_added_token(object, token);
  }
  return token;
}

class ConfigReader {
 public:
  void read(const ReadPath& path) {
    const Json value = read_json(path, size_t{1} << 26);
    JsonObject object(value, path.string());
    read_flag(object, "do_lower_case", config_.do_lower_case);
    read_flag(object, "strip_accents", config_.strip_accents);
    read_flag(object, "tokenize_chinese_chars", config_.tokenize_chinese_chars);
    read_flag(object, "keep_accents", config_.keep_accents);
    read_flag(object, "remove_space", config_.remove_space);
    read_flag(object, "add_prefix_space", config_.add_prefix_space);
    read_decoder(object);
    read_token(object, "cls_token", config_.cls_token);
    read_token(object, "sep_token", config_.sep_token);
    read_token(object, "unk_token", config_.unk_token);
    read_token(object, "pad_token", config_.pad_token);
    read_token(object, "mask_token", config_.mask_token);
    read_token(object, "bos_token", config_.bos_token);
    read_token(object, "eos_token", config_.eos_token);
    read_additional(object);
  }

  // added_tokens.json of old folders: tokens and ids, no flags.
  void read_ids(const ReadPath& path) {
    auto tokens = read_token_ids(read_json(path, size_t{1} << 26), path.string());
    std::ranges::sort(tokens, [](const auto& a, const auto& b) { return a.second < b.second; });
    for (auto& [content, id] : tokens) added_.add({.content = std::move(content), .id = id});
  }

  [[nodiscard]] TokenizerConfig take() {
    config_.added = added_.take();
    return std::move(config_);
  }

 private:
  // The first file wins: tokenizer_config.json is read before special_tokens_map.json.
  static void read_flag(JsonObject& object, std::string_view name, std::optional<bool>& flag) {
    if (!flag && object.has(name)) flag = object.boolean_or(name, false);
  }

  void read_token(JsonObject& object, std::string_view name, std::optional<std::string>& slot) {
    const Json* value = object.find(name);
    if (value == nullptr || slot) return;
    const auto token = read_special(*value, fmt::format("{}: field '{}'", object.where(), name));
    slot = token->content;
    if (value->is_object()) added_.add(*token);
  }

  void read_decoder(JsonObject& object) {
    const Json* decoder = object.find("added_tokens_decoder");
    if (decoder == nullptr) return;
    if (!decoder->is_object()) object.fail("added_tokens_decoder", glimpse(*decoder), "an object");
    std::map<int32_t, AddedToken> by_id;  // keys are ids as text, so the object's order is not numeric
    for (const auto& [key, value] : decoder->items()) {
      const std::string where = fmt::format("{}: added_tokens_decoder: '{}'", object.where(), key);
      const auto id = number_of<int32_t>(key);
      if (!id || *id < 0 || *id > kMaxTokenId) throw_bad_file(where, "want an id from 0 to {}", kMaxTokenId);
      JsonObject fields(value, where);
      AddedToken token = *read_special(value, where);
      token.special = fields.boolean_or("special", false);
      token.id = *id;
      by_id.emplace(*id, std::move(token));
    }
    for (auto& [id, token] : by_id) added_.add(std::move(token));
  }

  void read_additional(JsonObject& object) {
    const Json* list = object.find("additional_special_tokens");
    if (list == nullptr) return;
    if (!list->is_array()) object.fail("additional_special_tokens", glimpse(*list), "a list");
    for (const Json& value : *list) {
      if (auto token = read_special(value, object.where() + ": additional_special_tokens"))
        added_.add(std::move(*token));
    }
  }

  TokenizerConfig config_ = {};
  AddedTokenList added_ = {};
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& where) {
  Json document = parse_json(text, where);
  JsonObject object(document, where);
  for (const char* name : {"version", "truncation", "padding", "decoder"}) object.ignore(name);
  TokenizerJson out;
  out.where = where;
  out.parts.where = where;
  if (const Json* added = object.find("added_tokens")) {
    out.parts.added = parse_added_tokens(*added, where + ": added_tokens");
  }
  if (const Json* normalizer = object.find("normalizer")) {
    out.parts.normalizer = parse_normalizer(*normalizer, where + ": normalizer");
  }
  if (const Json* post = object.find("post_processor")) {
    out.parts.post = parse_post_processor(*post, where + ": post_processor");
  }
  if (const Json* pre = object.find("pre_tokenizer")) out.pre_tokenizer = *pre;
  out.model_type = model_type_of(object.get("model"), where + ": model");
  object.finish();
  out.model = std::move(document["model"]);
  out.model.erase("type");
  return out;
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  ConfigReader reader;
  const auto exists = [&](const char* name) { return path_exists(folder / name); };
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (exists(name)) reader.read(ReadPath::in(folder, name));
  }
  if (exists("added_tokens.json")) reader.read_ids(ReadPath::in(folder, "added_tokens.json"));
  return reader.take();
}

}  // namespace exeunt
