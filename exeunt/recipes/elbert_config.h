// SPDX-License-Identifier: Apache-2.0
// ELBERT trains as the config.json of its weights says; here the recipe does. This turns the one into changes of the
// other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/base/json.h"

namespace exeunt {

struct ElbertTraining {
  std::vector<std::string> set = {};      // FIELD=VALUE of the recipe, as for --set
  std::vector<std::string> notices = {};  // one line for each field that is not followed
};

// Of a config.json without ELBERT's fields: nothing. Throws Error (bad_file) for a value that ELBERT could not use.
[[nodiscard]] ElbertTraining elbert_training(const Json& config, const std::string& where);

// What the config.json of a model folder changes in a recipe: one of ELBERT's, and its objective in `elbert` alone.
[[nodiscard]] ElbertTraining elbert_settings(const std::string& recipe, const std::filesystem::path& folder);

}  // namespace exeunt
