// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/folder_card.h"

#include "exeunt/base/files.h"
#include "exeunt/engine/resolve.h"

namespace exeunt {
namespace fs = std::filesystem;

CardFacts facts_of_folder(const fs::path& folder, const Checkpoint& model, const fs::path& source) {
  CardFacts facts = card_facts(folder, source);
  if (facts.policy) facts.promises = stored_promises(*facts.policy, model, folder);
  return facts;
}

std::function<std::vector<std::string>(const fs::path&)> card_writer(const Checkpoint& model, const fs::path& out,
                                                                     CardFor reader) {
  return [&model, out, reader](const fs::path& folder) -> std::vector<std::string> {
    CardFacts facts = facts_of_folder(folder, model, model.folder());
    facts.name = name_of_folder(out);
    facts.reader = reader;
    write_card(folder, model, facts);
    return {};  // people edit it, so no manifest lists it
  };
}

void refresh_card(const Checkpoint& model) {
  const fs::path& folder = model.folder();
  if (path_exists(folder / kCardFile)) write_card(folder, model, facts_of_folder(folder, model, folder));
}

}  // namespace exeunt
