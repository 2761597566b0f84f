// SPDX-License-Identifier: Apache-2.0
// manifest.json: the files of an Exeunt folder, their sizes and hashes. It is written last, so a folder with a manifest
// is complete.
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

// `quick` checks every size, and the hashes of config.json, exits.json and files up to 1 MiB: it finds truncated and
// exchanged files without reading the weights. `full` hashes them too (BERT-base: about half a second).
enum class Verify { quick, full };
void verify_manifest(const Manifest& manifest, const std::filesystem::path& folder, Verify verify);

}  // namespace exeunt
