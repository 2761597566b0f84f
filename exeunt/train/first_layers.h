// SPDX-License-Identifier: Apache-2.0
// The lower part of a backbone as a model of its own: what ElasticBERT's static use trains. No torch here.
#pragma once

#include "exeunt/model/checkpoint.h"

namespace exeunt {

// The first `layers` layers and no heads; pretrained poolers of those layers stay. Throws Error (usage) if the model
// does not have that many.
[[nodiscard]] Checkpoint first_layers(const Checkpoint& base, int layers);

}  // namespace exeunt
