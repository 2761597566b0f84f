// SPDX-License-Identifier: Apache-2.0
// From another system's tensors and configuration to a checkpoint under our names. Nothing is copied.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exeunt/base/json.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

struct ImportSource {
  TensorSet tensors;  // under the file's own names
  Json config = {};
  std::string config_where = "config.json";
  std::optional<Family> guess = {};  // used if neither configuration nor names tell the family
  std::optional<Json> exits = {};    // exits.json, if the folder has one
  std::string exits_where = "exits.json";
  Origin origin = {};
};

[[nodiscard]] Checkpoint import_checkpoint(ImportSource source);

// Other systems' tensor names in one common form: without prefixes, in current spelling. These are the names that
// schema()'s aliases use.
struct SourceTensor {
  std::string name;  // in the file
  TensorView view;
};

struct SourceTensors {
  std::map<std::string, SourceTensor, std::less<>> tensors;  // by the common form of the name
  std::string prefix;            // "bert." … as most of the file's names have it, or empty
  std::optional<Family> family;  // as the names tell

  [[nodiscard]] const SourceTensor* find(std::string_view name) const;
};

// Drops buffers, pretraining heads and teachers' copies. Two names of the file for the same tensor are an Error;
// `where` opens its message.
[[nodiscard]] SourceTensors normalise_names(const TensorSet& set, std::string_view where);

// The common form of one name; nothing for a tensor that is dropped.
[[nodiscard]] std::optional<std::string> common_name(std::string_view name);

}  // namespace exeunt
