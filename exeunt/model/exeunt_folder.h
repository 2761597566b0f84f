// SPDX-License-Identifier: Apache-2.0
// Exeunt's model folder: config.json, exits.json, model.safetensors, the unchanged tokenizer files, recipe.json,
// learned.safetensors and manifest.json; also policy.json and precision.json. Written atomically.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/safetensors.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kExitsFile = "exits.json";
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kLearnedFile = "learned.safetensors";    // which texts it was trained on
inline constexpr std::string_view kWeightsFormat = "exeunt.model/1";  // in the weights' metadata

struct WriteOptions {
  bool replace = false;     // replaces an existing folder
  std::string recipe = {};  // text of recipe.json; empty = the one in the checkpoint's folder, if any
  // Writes more files into the folder and returns the names of those for the manifest.
  std::function<std::vector<std::string>(const std::filesystem::path& folder)> beside = {};
};

// Returns notices for the user, one line each. Throws Error and then leaves nothing behind.
std::vector<std::string> write_exeunt_folder(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                             const WriteOptions& options = {});

// A folder for transformers: its names, its configuration, and every exit as exits.* with exits.json.
std::vector<std::string> export_hugging_face(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                             const WriteOptions& options = {});

// The files that accompany weights in another format: config.json, exits.json, the tokenizer's files and policy.json.
std::vector<std::string> write_companions(const Checkpoint& checkpoint, const std::filesystem::path& folder);

// Identifies the weights in traces and policies: the SHA-256 of model.safetensors as write_exeunt_folder() writes it,
// so that a folder of another system and our conversion of it agree; with the thresholds of its labels, if it has
// any. Computed from the bytes in use, once; throws Error (bad_file) if the manifest tells another.
[[nodiscard]] std::string weights_sha256(const Checkpoint& checkpoint);
// The same as the manifest tells it, without reading the weights. No certificate may be claimed by it alone.
[[nodiscard]] std::string claimed_sha256(const Checkpoint& checkpoint);

}  // namespace exeunt
