// SPDX-License-Identifier: Apache-2.0
// The inner function of SHA-256: plain, and with the instructions of x86-64 (SHA) and aarch64 (SHA2).
#pragma once

#include <cstddef>
#include <cstdint>

namespace exeunt {

// Absorbs `count` blocks of 64 bytes, with the CPU's own instructions where it has them.
void sha256_blocks(uint32_t* state, const uint8_t* data, size_t count) noexcept;

// The definition; the fast forms are tested against it.
void sha256_blocks_plain(uint32_t* state, const uint8_t* data, size_t count) noexcept;

}  // namespace exeunt
