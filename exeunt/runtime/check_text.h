// SPDX-License-Identifier: Apache-2.0
// Is this a text the model can take? Asked by every engine before it runs one.
#pragma once

#include <cstdint>
#include <span>

#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error (bad_file) if the text is empty, longer than the model takes, or holds an id or type the model lacks.
void check_text(const ModelSpec& spec, std::span<const int32_t> ids, std::span<const uint8_t> types);

}  // namespace exeunt
