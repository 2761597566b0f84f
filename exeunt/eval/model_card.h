// SPDX-License-Identifier: Apache-2.0
// README.md of a model folder: a Hugging Face model card (with YAML metadata), written from the files in the folder.
// What only the author knows, such as the licence, is left to the author.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/policy/policy_file.h"

namespace exeunt {

inline constexpr const char* kCardFile = "README.md";
// A card with this line was written by Exeunt and may be overwritten; one without it belongs to its author.
inline constexpr std::string_view kCardMark = "<!-- written by exeunt; remove this line to keep your changes -->";

// Below this line is the card of the source model.
inline constexpr std::string_view kOriginMark = "<!-- the card that the model came with: -->";

enum class CardFor { exeunt, transformers, onnx };  // what loads the folder

struct CardFacts {
  CardFor reader = CardFor::exeunt;
  std::string name = {};                   // of the folder
  std::optional<PolicyFile> policy = {};   // policy.json
  std::vector<std::string> promises = {};  // of its entries, as the folder is now; empty: as their certificates say
  Json results = {};                       // all_results.json of a run
  Json recipe = {};                        // recipe.json
  Json attached = {};                      // attach.json
  std::string author = {};                 // metadata lines that an author wrote, such as the licence
  std::string origin = {};                 // the text of the source model's card
};

// The facts for a card: policy.json in `folder`, the rest in `source` (the model's origin). The text of a
// card there that is not ours is kept below ours; so are the licence, languages, data and base model that it names.
[[nodiscard]] CardFacts card_facts(const std::filesystem::path& folder, const std::filesystem::path& source);

// The same, with what the policies promise as the folder is now, by the rule by which they run (engine/resolve);
// `model` is what it holds.
[[nodiscard]] CardFacts facts_of_folder(const std::filesystem::path& folder, const Checkpoint& model,
                                        const std::filesystem::path& source);

[[nodiscard]] std::string model_card(const Checkpoint& model, const CardFacts& facts);

// Writes the card into `folder`, unless it has someone else's.
void write_card(const std::filesystem::path& folder, const Checkpoint& model, const CardFacts& facts);

// For WriteOptions::beside: the card of a folder that will be called `out`.
[[nodiscard]] std::function<std::vector<std::string>(const std::filesystem::path&)> card_writer(
    const Checkpoint& model, const std::filesystem::path& out, CardFor reader);

// Rewrites our card of a folder after its policy has changed, if it has one.
void refresh_card(const Checkpoint& model);

}  // namespace exeunt
