// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/locate.h"

#include <system_error>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/model/hub_cache.h"

namespace exeunt {
namespace fs = std::filesystem;

fs::path locate_model(const std::string& model) {
  if (path_exists(model)) return model;
  if (path_exists(model + ".index")) return model + ".index";
  if (is_hub_name(model)) return find_in_hub_cache(model, hub_cache_folder());
  throw Error(Code::bad_file, fmt::format("{}: no such file or folder", model));
}

fs::path model_folder(const std::string& model) {
  const fs::path place = locate_model(model);
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) return place;
  return place.has_parent_path() ? place.parent_path() : fs::path(".");
}

}  // namespace exeunt
