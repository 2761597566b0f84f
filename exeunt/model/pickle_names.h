// SPDX-License-Identifier: Apache-2.0
// What the pickle reader knows by name: the Python names it accepts, and, for its messages, all opcodes of Python.
#pragma once

#include <cstdint>
#include <string_view>

#include "exeunt/model/pickle.h"

namespace exeunt {

// Null if the name is not one of those that a state dict needs.
[[nodiscard]] const PickleName* find_pickle_name(std::string_view module, std::string_view name) noexcept;

// As Python's pickletools call it; empty if there is no such opcode.
[[nodiscard]] std::string_view opcode_name(uint8_t opcode) noexcept;

}  // namespace exeunt
