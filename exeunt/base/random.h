// SPDX-License-Identifier: Apache-2.0
// SplitMix64 (Steele, Lea and Flood 2014): numbers that are the same everywhere, as those of the standard library's
// distributions and shuffles are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace exeunt {

// Every bit of the result depends on every bit of `x`.
constexpr uint64_t mix_bits(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;

  explicit SplitMix64(uint64_t seed) noexcept : state_(seed) {}

  uint64_t next() noexcept { return mix_bits(state_ += kStep); }
  // Uniform below `bound`: numbers from the incomplete last interval are redrawn.
  size_t below(size_t bound) noexcept {
    const uint64_t refused = -bound % bound;
    uint64_t drawn = next();
    while (drawn < refused) drawn = next();
    return drawn % bound;
  }

 private:
  uint64_t state_;
};

template <class Items>
void shuffle(Items& items, SplitMix64& random) {
  for (size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random.below(left)]);
}

}  // namespace exeunt
