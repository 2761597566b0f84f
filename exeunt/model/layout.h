// SPDX-License-Identifier: Apache-2.0
// The rules every exit layout keeps, whether it was read from exits.json, derived from names, or made by training.
#pragma once

#include <string_view>

#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error (bad_file) on the first broken rule; `where` (a file name) opens the message.
void check_layout(const ModelSpec& spec, const ExitLayout& exits, std::string_view where);

// True if pooler `pooler` reads [h_0 ; r], a reader's output beside the first row.
[[nodiscard]] bool pooler_has_reader(const ExitLayout& exits, int pooler) noexcept;

}  // namespace exeunt
