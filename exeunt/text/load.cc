// SPDX-License-Identifier: Apache-2.0
// Detects which tokenizer a folder has, and identifies it.
#include <algorithm>
#include <array>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/text/tokenizer_json.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxTokenizerJson = size_t{1} << 26;

std::unique_ptr<const Tokenizer> from_json(const ReadPath& path) {
  const auto file = MappedFile::open(path, kMaxTokenizerJson);
  TokenizerJson json = parse_tokenizer_json(file->text(), path.string());
  if (json.model_type == "Unigram") return make_unigram_tokenizer(std::move(json));
  if (json.model_type == "BPE") return make_byte_bpe_tokenizer(std::move(json));
  return make_wordpiece_tokenizer(std::move(json));
}

// SentencePiece models that are not read as ALBERT's is, though the files look alike: other ids, other normalisation.
void refuse_other_spiece(const fs::path& folder) {
  constexpr std::pair<const char*, const char*> kOthers[] = {{"spm.model", "DeBERTa"},
                                                             {"sentencepiece.bpe.model", "XLM-RoBERTa or CamemBERT"}};
  for (const auto& [name, family] : kOthers) {
    if (!path_exists(folder / name)) continue;
    throw Error(Code::bad_file,
                fmt::format("{}: got {}, as {} has it, without tokenizer.json", folder.string(), name, family),
                "make one: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes tokenizer.json");
  }
}

// spiece.model, Google's 30k-clean.model, or the only other *.model in the folder.
fs::path find_spiece_model(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".model" && entry.is_regular_file()) found.push_back(entry.path());
  }
  for (const char* name : {"spiece.model", "30k-clean.model"}) {
    const auto known = std::ranges::find(found, folder / name);
    if (known != found.end()) return *known;
  }
  if (found.size() <= 1) return found.empty() ? fs::path() : found.front();
  std::ranges::sort(found);
  throw Error(Code::bad_file,
              fmt::format("{}: got {} and {}, want one tokenizer model", folder.string(), found[0].filename().string(),
                          found[1].filename().string()),
              "keep the right one, or name it spiece.model");
}

std::unique_ptr<const Tokenizer> from_folder(const fs::path& folder, std::optional<SpieceReader> reader) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) throw_bad_file(folder.string(), "no such folder");
  const auto has = [&](const char* name) { return path_exists(folder / name); };
  if (has("tokenizer.json")) return from_json(ReadPath::in(folder, "tokenizer.json"));
  const TokenizerConfig config = read_tokenizer_config(folder);
  if (has("vocab.txt")) return read_wordpiece_tokenizer(ReadPath::in(folder, "vocab.txt"), config);
  refuse_other_spiece(folder);
  if (const fs::path model = find_spiece_model(folder); !model.empty()) {
    return read_unigram_tokenizer(model, config, reader.value_or(default_spiece_reader(folder)));
  }
  if (has("vocab.json") && has("merges.txt")) {
    return read_byte_bpe_tokenizer(ReadPath::in(folder, "vocab.json"), ReadPath::in(folder, "merges.txt"), config);
  }
  if (has("vocab.json") || has("merges.txt")) {
    throw_bad_file(folder.string(), "got {} alone, want vocab.json and merges.txt",
                   has("vocab.json") ? "vocab.json" : "merges.txt");
  }
  throw Error(Code::bad_file, fmt::format("{}: no tokenizer found", folder.string()),
              "want tokenizer.json, vocab.txt, spiece.model, or vocab.json with merges.txt");
}

}  // namespace

std::optional<SpieceReader> spiece_reader_named(std::string_view name) noexcept {
  if (name == "spiece") return SpieceReader::spiece;
  if (name == "tokenizers") return SpieceReader::tokenizers;
  return std::nullopt;
}

bool has_bare_spiece(const fs::path& folder) {
  return !path_exists(folder / "tokenizer.json") && !path_exists(folder / "vocab.txt") &&
         !find_spiece_model(folder).empty();
}

SpieceReader default_spiece_reader(const fs::path& folder) {
  const ReadPath path = ReadPath::in(folder, "tokenizer_config.json");
  if (!path_exists(path.path())) return SpieceReader::spiece;
  const Json value = read_json(path, kMaxTokenizerJson);
  JsonObject config(value, path.string());
  if (config.has("backend")) {
    return config.choice("backend", {"tokenizers", "sentencepiece"}) == "tokenizers" ? SpieceReader::tokenizers
                                                                                     : SpieceReader::spiece;
  }
  return config.has("added_tokens_decoder") ? SpieceReader::tokenizers : SpieceReader::spiece;
}

std::unique_ptr<const Tokenizer> load_tokenizer(const fs::path& folder, std::optional<SpieceReader> reader) {
  return with_hint(
      "copy the tokenizer files from the model's source; three families are supported: WordPiece, "
      "unigram and byte-level BPE",
      [&] { return from_folder(folder, reader); });
}

std::string tokenizer_sha256(const fs::path& folder) {
  // Settings mean nothing without the vocabulary they belong to.
  constexpr std::array<std::string_view, 3> kVocabularies = {"merges.txt", "vocab.json", "vocab.txt"};
  constexpr std::array<std::string_view, 3> kSettings = {"added_tokens.json", "special_tokens_map.json",
                                                         "tokenizer_config.json"};
  std::error_code failure;
  std::set<std::string> names;  // in the same order everywhere
  bool any = false;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const bool vocabulary = std::ranges::count(kVocabularies, name) > 0 || entry->path().extension() == ".model";
    any = any || vocabulary;
    if (vocabulary || std::ranges::count(kSettings, name) > 0) names.insert(name);
  }
  // tokenizer.json is self-contained; no other file is read.
  if (path_exists(folder / "tokenizer.json")) {
    names = {"tokenizer.json"};
    any = true;
  }
  if (!any) throw_bad_file(folder.string(), "no tokenizer found");
  Sha256 hash;
  // The same file gives other tokens in SentencePiece's hands.
  if (has_bare_spiece(folder) && default_spiece_reader(folder) == SpieceReader::spiece) hash.add("sentencepiece\n");
  for (const std::string& name : names) hash.add(name + "\n" + sha256_file(ReadPath::in(folder, name)) + "\n");
  return hash.hex();
}

}  // namespace exeunt
