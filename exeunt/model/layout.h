// SPDX-License-Identifier: Apache-2.0
// The rules of every exit layout, whether read from exits.json, derived from names, or made for training.
#pragma once

#include <string_view>

#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error (bad_file) on the first broken rule; `where` (a file name) prefixes the message.
void check_layout(const ModelSpec& spec, const ExitLayout& exits, std::string_view where);

// True if pooler `pooler` reads [h_0 ; r]: the first row and a reader's output.
[[nodiscard]] bool pooler_has_reader(const ExitLayout& exits, int pooler) noexcept;

}  // namespace exeunt
