// SPDX-License-Identifier: Apache-2.0
// Unpacks Snappy's raw form, in which some tables of TensorFlow checkpoints are written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace exeunt {

// The unpacked bytes; nothing if `packed` is broken or would unpack to more than `limit` bytes.
[[nodiscard]] std::optional<std::vector<std::byte>> unpack_snappy(std::span<const std::byte> packed, size_t limit);

}  // namespace exeunt
