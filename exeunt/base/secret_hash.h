// SPDX-License-Identifier: Apache-2.0
// Hashes for tables whose keys someone else chose. With a function that everyone knows, a file could bring keys that
// all share one place, and every look into the table would go through all of them. These differ from process to
// process, so they are never stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "exeunt/base/random.h"

namespace exeunt {

using HashSecret = std::array<uint64_t, 2>;
[[nodiscard]] const HashSecret& hash_secret();  // of this process

// SipHash-2-4 (Aumasson and Bernstein 2012).
[[nodiscard]] uint64_t sip_hash(std::string_view text, const HashSecret& secret) noexcept;

// For std::unordered_map and the like.
struct SecretHash {
  [[nodiscard]] size_t operator()(std::string_view text) const { return sip_hash(text, hash_secret()); }
  [[nodiscard]] size_t operator()(uint64_t number) const { return mix_bits(number ^ hash_secret()[0]); }
};

}  // namespace exeunt
