// SPDX-License-Identifier: Apache-2.0
// Exeunt's model folder: config.json, exits.json, model.safetensors, the tokenizer's files as they came, recipe.json,
// and manifest.json; policy.json and precision.json beside them. Written whole or not at all.
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
inline constexpr std::string_view kWeightsFormat = "exeunt.model/1";  // in the weights' metadata

struct WriteOptions {
  bool replace = false;     // an existing folder is exchanged for the new one
  std::string recipe = {};  // text of recipe.json; empty = the one in the checkpoint's folder, if any
  // Writes further files into the folder and returns the names of those that a manifest is to list.
  std::function<std::vector<std::string>(const std::filesystem::path& folder)> beside = {};
};

// Returns what the user should know, one line each. Throws Error; then nothing is left behind.
std::vector<std::string> write_exeunt_folder(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                             const WriteOptions& options = {});

// A folder for transformers: its names, its configuration, and beside them every exit as exits.* with exits.json.
std::vector<std::string> export_hugging_face(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                             const WriteOptions& options = {});

// What belongs beside weights in another form: config.json, exits.json, the tokenizer's files and policy.json.
std::vector<std::string> write_companions(const Checkpoint& checkpoint, const std::filesystem::path& folder);

// What identifies the weights in traces and policies: the SHA-256 of model.safetensors as write_exeunt_folder() writes
// it. So a folder of another system and our conversion of it have the same one.
[[nodiscard]] std::string weights_sha256(const Checkpoint& checkpoint);

}  // namespace exeunt
