// SPDX-License-Identifier: Apache-2.0
// From a model's name to its path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace exeunt {

// A path that exists; "model.ckpt-best", the part that TensorFlow's files share; or `org/name` in the local Hugging
// Face cache. Throws Error that says how to get a missing model.
[[nodiscard]] std::filesystem::path locate_model(const std::string& model);

// The folder of a model's configuration and tokenizer.
[[nodiscard]] std::filesystem::path model_folder(const std::string& model);

// checkpoint-N below the folder of a training, by rising N.
[[nodiscard]] std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& run);

// The folder of this machine's Hugging Face cache, from which models are read but never downloaded to: by
// $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
[[nodiscard]] std::filesystem::path hub_cache_folder();

// True for "name" and "org/name" of letters, digits, '-', '_' and '.'.
[[nodiscard]] bool is_hub_name(std::string_view text);

// The snapshot folder of a repository, after checking that every file in it is inside the repository's folder.
// Throws Error that says how to get the model.
[[nodiscard]] std::filesystem::path find_in_hub_cache(const std::string& name, const std::filesystem::path& cache);

}  // namespace exeunt
