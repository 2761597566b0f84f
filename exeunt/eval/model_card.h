// SPDX-License-Identifier: Apache-2.0
// README.md of a model folder: a model card as Hugging Face reads it (metadata in front), written from the files that
// lie there. What only people know, the licence first of all, is left to them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

inline constexpr const char* kCardFile = "README.md";
// A card with this line was written by us and may be written anew; one without it belongs to its author.
inline constexpr std::string_view kCardMark = "<!-- written by exeunt; remove this line to keep your changes -->";

// Below this line stands the card of the model that ours was made from.
inline constexpr std::string_view kOriginMark = "<!-- the card that the model came with: -->";

enum class CardFor { exeunt, transformers, onnx };  // what loads the folder

struct CardFacts {
  CardFor reader = CardFor::exeunt;
  std::string name = {};                  // of the folder
  std::optional<PolicyFile> policy = {};  // policy.json
  Json results = {};                      // all_results.json of a run
  Json recipe = {};                       // recipe.json
  std::string author = {};                // lines of metadata that an author wrote: the licence and the like
  std::string origin = {};                // the text of the card that the model came with
};

// What lies beside a model: in `folder` policy.json, in `source` (where the model came from) the rest. Of a card there
// that is not ours, the text is kept below ours; the licence, languages, data and base model that a card names, too.
[[nodiscard]] CardFacts card_facts(const std::filesystem::path& folder, const std::filesystem::path& source);

[[nodiscard]] std::string model_card(const Checkpoint& model, const CardFacts& facts);

// For WriteOptions::beside: the card of a folder that will be called `out`.
[[nodiscard]] std::function<std::vector<std::string>(const std::filesystem::path&)> card_writer(
    const Checkpoint& model, const std::filesystem::path& out, CardFor reader);

// Writes our card of a folder of ours anew, if it has one: its policy has changed.
void refresh_card(const Checkpoint& model);

// Writes the card into `folder`, unless somebody else's lies there.
void write_card(const std::filesystem::path& folder, const Checkpoint& model, const CardFacts& facts);

}  // namespace exeunt
