// SPDX-License-Identifier: Apache-2.0
// Not by EVP: that would put 3.6 MB of other algorithms into the wheel's libexeunt.so and read OpenSSL's configuration
// before the first hash (docs/decisions/0027).
#define OPENSSL_SUPPRESS_DEPRECATED
#include "exeunt/base/sha256.h"

#include <array>

#include <fmt/format.h>
#include <openssl/sha.h>

#include "exeunt/base/error.h"

namespace exeunt {

Sha256::Sha256() : state_(std::make_unique<SHA256_CTX>()) {
  check(SHA256_Init(state_.get()) == 1, "SHA-256 starts");
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  check(SHA256_Update(state_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 takes bytes");
}

void Sha256::add(std::string_view text) {
  add(std::as_bytes(std::span(text)));
}

std::string Sha256::hex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  check(SHA256_Final(digest.data(), state_.get()) == 1, "SHA-256 ends");
  std::string out;
  for (const unsigned char byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

std::string sha256_file(const ReadPath& path) {
  return sha256_hex(MappedFile::open(path)->bytes());
}

}  // namespace exeunt
