// SPDX-License-Identifier: Apache-2.0
// The Python file of an ELUE submission: `module_list`, by the names of elue_modules(), and `entire_model`.
#pragma once

#include <string>

#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error (usage) for exits with readers, which ELUE's modules have no name for.
[[nodiscard]] std::string elue_module_file(const ModelSpec& spec, const ExitLayout& exits);

}  // namespace exeunt
