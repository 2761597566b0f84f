// SPDX-License-Identifier: Apache-2.0
// From another system's tensors and configuration to a checkpoint under our names. Nothing is copied.
#pragma once

#include <optional>
#include <string>

#include "exeunt/base/json.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/names.h"

namespace exeunt {

struct ImportSource {
  TensorSet tensors;  // under the file's own names
  NameStyle style = NameStyle::torch;
  Json config = {};
  std::string config_where = "config.json";
  std::optional<Family> guess = {};  // used if neither configuration nor names tell the family
  std::optional<Json> exits = {};    // exits.json, if the folder has one
  std::string exits_where = "exits.json";
  Origin origin = {};
};

[[nodiscard]] Checkpoint import_checkpoint(ImportSource source);

}  // namespace exeunt
