// SPDX-License-Identifier: Apache-2.0
// SHA-256 by libcrypto, for manifests, API keys and for binding certificates to weights.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/base/files.h"

struct SHA256state_st;  // libcrypto's

namespace exeunt {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  [[nodiscard]] std::string hex();  // finishes the computation

 private:
  std::unique_ptr<SHA256state_st> state_;
};

[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);
[[nodiscard]] std::string sha256_file(const ReadPath& path);

}  // namespace exeunt
