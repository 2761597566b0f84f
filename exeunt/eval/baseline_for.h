// SPDX-License-Identifier: Apache-2.0
// What simple models reach on the texts that were measured.
#pragma once

#include <string>
#include <vector>

#include "exeunt/data/baseline.h"
#include "exeunt/eval/measure.h"

namespace exeunt {

// The majority class and a linear model, learned from the rows of the file `train`, which has the columns of the
// measured data, and scored on those. Throws Error: usage where the texts are not at hand, as with a trace alone.
[[nodiscard]] std::vector<BaselineScore> baseline_for(const std::string& train, const MeasureOptions& options,
                                                      const Measured& measured, const std::vector<Metric>& metrics);

}  // namespace exeunt
