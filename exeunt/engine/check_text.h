// SPDX-License-Identifier: Apache-2.0
// Validates a text before an engine runs it.
#pragma once

#include <cstdint>
#include <span>

#include "exeunt/model/spec.h"

namespace exeunt {

// Throws Error (bad_file) if the text is empty, too long, or has an id or type that the model lacks.
void check_text(const ModelSpec& spec, std::span<const int32_t> ids, std::span<const uint8_t> types);

}  // namespace exeunt
