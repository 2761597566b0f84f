// SPDX-License-Identifier: Apache-2.0
// From what the user names to where it lies.
#pragma once

#include <filesystem>
#include <string>

namespace exeunt {

// A path that exists; "model.ckpt-best", the part that TensorFlow's files share; or `org/name` in the local Hugging
// Face cache. Throws Error that says how to get a model that is not there.
[[nodiscard]] std::filesystem::path locate_model(const std::string& model);

// The folder of a model, where its configuration and tokenizer lie.
[[nodiscard]] std::filesystem::path model_folder(const std::string& model);

}  // namespace exeunt
