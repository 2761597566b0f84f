// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/secret_hash.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

// The vectors of SipHash's authors: the key is 00 01 … 0f, the text 00 01 … of each length.
TEST(SecretHash, IsSipHash) {
  const HashSecret key{0x0706050403020100U, 0x0F0E0D0C0B0A0908U};
  std::string text;
  for (const uint64_t expected : {0x726FDB47DD0E0E31U, 0x74F839C593DC67FDU, 0x0D6C8009D9A94F5AU, 0x85676696D7FB7E2DU,
                                  0xCF2794E0277187B7U, 0x18765564CD99A68DU, 0xCBC9466E58FEE3CEU, 0xAB0200F58B01D137U,
                                  0x93F5F5799A932462U, 0x9E0082DF0BA9E4B0U, 0x7A5DBBC594DDB9F3U, 0xF4B32F46226BADA7U,
                                  0x751E8FBC860EE5FBU, 0x14EA5627C0843D90U, 0xF723CA908E7AF2EEU, 0xA129CA6149BE45E5U}) {
    EXPECT_EQ(sip_hash(text, key), expected) << text.size();
    text += static_cast<char>(text.size());
  }
}

TEST(SecretHash, SpreadsKeysThatShareTheirLowBits) {
  const SecretHash hash;
  std::set<size_t> places;
  for (uint64_t i = 0; i < 1000; ++i) places.insert(hash(i << 32) % 1024);
  EXPECT_GT(places.size(), 500U);  // by chance 638 of them
  EXPECT_EQ(hash(std::string_view("a")), hash(std::string_view("a")));
  EXPECT_NE(hash(std::string_view("a")), hash(std::string_view("b")));
}

}  // namespace
}  // namespace exeunt
