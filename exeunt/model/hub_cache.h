// SPDX-License-Identifier: Apache-2.0
// `org/name` in the Hugging Face cache of this machine. Nothing is ever downloaded.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace exeunt {

// The cache's folder by $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
[[nodiscard]] std::filesystem::path hub_cache_folder();

// True for "name" and "org/name" of letters, digits, '-', '_' and '.'.
[[nodiscard]] bool is_hub_name(std::string_view text);

// The snapshot folder of a repository, with every file in it checked to lie inside the repository's own folder.
// Throws Error that says how to get the model.
[[nodiscard]] std::filesystem::path find_in_hub_cache(const std::string& name, const std::filesystem::path& cache);

}  // namespace exeunt
