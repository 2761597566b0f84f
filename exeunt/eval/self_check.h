// SPDX-License-Identifier: Apache-2.0
// Checks the engine against the reference on this processor, with a small random model.
#pragma once

#include <vector>

#include "exeunt/engine/engine.h"

namespace exeunt {

struct SelfCheck {
  Precision precision = Precision::fp32;
  double difference = 0;  // the largest of all exits' logits, as a share of the largest logit
  bool good = false;      // within this precision's rounding error
};

// One row for each precision of these kernels.
[[nodiscard]] std::vector<SelfCheck> check_engine(const Kernels& kernels);

}  // namespace exeunt
