// SPDX-License-Identifier: Apache-2.0
// Zip archives as PyTorch writes them: entries stored uncompressed, one after the other, listed once at the end.
// Anything else (compressed, encrypted, split, with gaps, self-contradicting) is rejected, because readers that
// disagree about such files are how hostile ones get past checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/base/gunzip.h"

namespace exeunt {

inline constexpr Hint kZipHint{"copy or download the file again; if it stays so, re-save it with safetensors"};

struct ZipEntry {
  std::string_view name;  // both inside the archive
  std::span<const std::byte> bytes;
};

// Every entry in the order of the archive's directory. `where` (the file) prefixes error messages.
[[nodiscard]] std::vector<ZipEntry> parse_zip(std::span<const std::byte> bytes, std::string_view where,
                                              CrcCheck crc = CrcCheck::verify);

}  // namespace exeunt
