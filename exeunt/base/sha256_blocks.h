// SPDX-License-Identifier: Apache-2.0
// The compression function of SHA-256: portable, and with the instructions of x86-64 (SHA) and aarch64 (SHA2).
#pragma once

#include <cstddef>
#include <cstdint>

namespace exeunt {

// Absorbs `count` blocks of 64 bytes, with the CPU's instructions if available.
void sha256_blocks(uint32_t* state, const uint8_t* data, size_t count) noexcept;

// The reference; the fast versions are tested against it.
void sha256_blocks_plain(uint32_t* state, const uint8_t* data, size_t count) noexcept;

}  // namespace exeunt
