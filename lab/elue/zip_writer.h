// SPDX-License-Identifier: Apache-2.0
// Writes an uncompressed zip archive: all that a submission needs, and reproducible.
#pragma once

#include <span>
#include <string>

namespace exeunt {

struct StoredFile {
  std::string name;  // plain ASCII, no folders
  std::string content;
};

// The whole archive. Times are 1 January 1980, so equal files give equal archives. Files and archive stay under 4 GiB,
// which the caller guarantees.
[[nodiscard]] std::string zip_stored(std::span<const StoredFile> files);

}  // namespace exeunt
