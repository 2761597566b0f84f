// SPDX-License-Identifier: Apache-2.0
// From what the user names to where it lies.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace exeunt {

// A path that exists; "model.ckpt-best", the part that TensorFlow's files share; or `org/name` in the local Hugging
// Face cache. Throws Error that says how to get a model that is not there.
[[nodiscard]] std::filesystem::path locate_model(const std::string& model);

// The folder of a model, where its configuration and tokenizer lie.
[[nodiscard]] std::filesystem::path model_folder(const std::string& model);

// The folder of this machine's Hugging Face cache, from which models are read but never downloaded to: by
// $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
[[nodiscard]] std::filesystem::path hub_cache_folder();

// True for "name" and "org/name" of letters, digits, '-', '_' and '.'.
[[nodiscard]] bool is_hub_name(std::string_view text);

// The snapshot folder of a repository, with every file in it checked to lie inside the repository's own folder.
// Throws Error that says how to get the model.
[[nodiscard]] std::filesystem::path find_in_hub_cache(const std::string& name, const std::filesystem::path& cache);

}  // namespace exeunt
