// SPDX-License-Identifier: Apache-2.0
// The sorted table of LevelDB, in which TensorFlow keeps the index of a checkpoint: blocks of prefix-compressed keys
// with their values, each block with a checksum, and a footer that leads to the block that lists the others.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "exeunt/base/error.h"
#include "exeunt/base/gunzip.h"

namespace exeunt {

inline constexpr Hint kTableHint{"copy or download the checkpoint again"};

using TableVisit = std::function<void(std::string_view key, std::span<const std::byte> value)>;

// Calls `visit` for every entry; keys rise strictly. Key and value live only until it returns. Throws Error.
void for_each_in_table(std::span<const std::byte> table, std::string_view where, CrcCheck crc, const TableVisit& visit);

}  // namespace exeunt
