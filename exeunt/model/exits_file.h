// SPDX-License-Identifier: Apache-2.0
// exits.json: where and how a model exits (format exeunt.exits/1). Strict in both directions.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error on any unknown field, wrong type or broken rule; `where` names the file.
[[nodiscard]] ExitLayout parse_exits(const Json& value, const ModelSpec& spec, const std::string& where);
[[nodiscard]] OrderedJson exits_json(const ExitLayout& exits);

// Gives a multi-label model in Exeunt's format other thresholds (ExitLayout::logit_thresholds). The folder can be
// opened at any moment, and after a crash. Policies made for the old ones no longer hold. Throws Error.
void write_thresholds(const std::filesystem::path& folder, const std::vector<float>& logit_thresholds);

}  // namespace exeunt
