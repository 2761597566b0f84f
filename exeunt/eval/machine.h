// SPDX-License-Identifier: Apache-2.0
// What the system offers: memory, disk, huge pages, other programs. For `exeunt doctor`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace exeunt {

struct Memory {
  uint64_t total = 0, available = 0;   // bytes; 0 = the system does not say
  std::optional<uint64_t> limit = {};  // of this process's group (a container), if it has one below `total`
};
[[nodiscard]] Memory memory();

// The processor limit of this process's group (a container), if it has one.
[[nodiscard]] std::optional<double> processor_limit();
// Cores of the machine, not counting their second threads; 0 = the system does not say.
[[nodiscard]] int cores();

// "always", "madvise" or "never"; empty if unknown.
[[nodiscard]] std::string huge_pages();

[[nodiscard]] std::optional<uint64_t> free_bytes(const std::filesystem::path& folder);

// A program on the PATH; empty if there is none.
[[nodiscard]] std::filesystem::path program_on_path(const std::string& name);

// What a program prints on standard output, if it ends with status 0 within `seconds`.
[[nodiscard]] std::optional<std::string> output_of(const std::vector<std::string>& words, int seconds);

}  // namespace exeunt
