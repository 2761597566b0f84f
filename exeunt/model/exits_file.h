// SPDX-License-Identifier: Apache-2.0
// exits.json: where and how a model exits (format exeunt.exits/1). Strict in both directions.
#pragma once

#include <string>

#include "exeunt/base/json.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error on any unknown field, wrong type or broken rule; `where` names the file.
[[nodiscard]] ExitLayout parse_exits(const Json& value, const ModelSpec& spec, const std::string& where);
[[nodiscard]] OrderedJson exits_json(const ExitLayout& exits);

}  // namespace exeunt
