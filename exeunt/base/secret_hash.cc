// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/secret_hash.h"

#include <bit>
#include <random>

namespace exeunt {
namespace {

struct SipState {
  uint64_t a, b, c, d;

  void rounds(int count) noexcept {
    for (; count > 0; --count) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  }
  void take(uint64_t word) noexcept {
    d ^= word;
    rounds(2);
    a ^= word;
  }
};

// Up to eight bytes, the first one lowest.
uint64_t word_of(std::string_view bytes) noexcept {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) word |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return word;
}

}  // namespace

const HashSecret& hash_secret() {
  static const HashSecret secret = [] {
    std::random_device device;
    const auto word = [&] { return (uint64_t{device()} << 32) | device(); };
    return HashSecret{word(), word()};
  }();
  return secret;
}

uint64_t sip_hash(std::string_view text, const HashSecret& secret) noexcept {
  SipState state{secret[0] ^ 0x736F6D6570736575U, secret[1] ^ 0x646F72616E646F6DU, secret[0] ^ 0x6C7967656E657261U,
                 secret[1] ^ 0x7465646279746573U};
  const uint64_t size = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) state.take(word_of(text.substr(0, 8)));
  state.take((size << 56) | word_of(text));
  state.c ^= 0xFF;
  state.rounds(4);
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace exeunt
