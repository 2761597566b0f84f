// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// Settings mean nothing without the vocabulary they belong to.
constexpr std::array<std::string_view, 3> kVocabularies = {"merges.txt", "vocab.json", "vocab.txt"};
constexpr std::array<std::string_view, 3> kSettings = {"added_tokens.json", "special_tokens_map.json",
                                                       "tokenizer_config.json"};

bool among(std::string_view name, const std::array<std::string_view, 3>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string tokenizer_sha256(const fs::path& folder) {
  std::error_code failure;
  std::set<std::string> names;  // in the same order everywhere
  bool any = false;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const bool vocabulary = among(name, kVocabularies) || entry->path().extension() == ".model";
    any = any || vocabulary;
    if (vocabulary || among(name, kSettings)) names.insert(name);
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
