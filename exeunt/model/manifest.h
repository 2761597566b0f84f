// SPDX-License-Identifier: Apache-2.0
// manifest.json: which files belong to our folder, how long they are and what they hash to. It is written last, so a
// folder with a manifest is a whole one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "exeunt/base/json.h"

namespace exeunt {

struct ManifestEntry {
  uint64_t bytes = 0;
  std::string sha256 = {};
};
using Manifest = std::map<std::string, ManifestEntry>;

inline constexpr const char* kManifestFile = "manifest.json";

[[nodiscard]] Manifest parse_manifest(const Json& value, const std::string& where);
[[nodiscard]] OrderedJson manifest_json(const Manifest& manifest);

// `quick` checks every length, and the hashes of files up to 1 MiB: a cut or swapped file is found without reading
// the weights. `full` hashes them too (BERT-base: about half a second).
enum class Verify { quick, full };
void verify_manifest(const Manifest& manifest, const std::filesystem::path& folder, Verify verify);

}  // namespace exeunt
