// SPDX-License-Identifier: Apache-2.0
// The card of a model folder that says what its policies promise as the folder is now, by the same rule by which they
// run (engine/resolve).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exeunt/eval/model_card.h"

namespace exeunt {

// card_facts() of `folder`, with the promises of its policies; `model` is what it holds.
[[nodiscard]] CardFacts facts_of_folder(const std::filesystem::path& folder, const Checkpoint& model,
                                        const std::filesystem::path& source);

// For WriteOptions::beside: the card of a folder that will be called `out`.
[[nodiscard]] std::function<std::vector<std::string>(const std::filesystem::path&)> card_writer(
    const Checkpoint& model, const std::filesystem::path& out, CardFor reader);

// Rewrites our card of a folder after its policy has changed, if it has one.
void refresh_card(const Checkpoint& model);

}  // namespace exeunt
