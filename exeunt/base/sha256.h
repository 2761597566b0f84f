// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for manifests and for binding certificates to weights. Uses the CPU's instructions if
// available; docs/decisions/0002 says why this is our own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/base/files.h"

namespace exeunt {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  [[nodiscard]] std::string hex();  // finishes the computation

 private:
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> block_{};
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);
[[nodiscard]] std::string sha256_file(const ReadPath& path);

}  // namespace exeunt
