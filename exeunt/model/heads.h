// SPDX-License-Identifier: Apache-2.0
// Which exits a checkpoint without exits.json has, told from the names its heads carry: DeeBERT's, RomeBERT's and
// BERxiT's highways, PABEE's and ElasticBERT's classifiers, ELBERT's exit layers, transformers' one head, or none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/model/config.h"
#include "exeunt/model/names.h"

namespace exeunt {

struct DerivedExits {
  ExitLayout exits;
  std::vector<std::string> notices;
};

// Throws Error where the heads found are not a whole set; `where` opens the message.
[[nodiscard]] DerivedExits derive_exits(const ModelConfig& config, const SourceTensors& source, std::string_view where);

}  // namespace exeunt
