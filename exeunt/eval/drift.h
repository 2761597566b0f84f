// SPDX-License-Identifier: Apache-2.0
// What changes when the same model runs in another precision or on another instruction set.
#pragma once

#include <span>
#include <string>

#include "exeunt/policy/policy.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

struct Drift {
  size_t rows = 0;
  double labels = 0;       // fraction of texts whose label under the policy changes (regression: none)
  double full_labels = 0;  // the same at full depth
  double exits = 0;        // share of texts that leave elsewhere
  double average_layers_before = 0, average_layers_after = 0;
  double largest_logit = 0;  // largest difference of any logit of any exit
  double mean_logit = 0;     // and the mean
};

// Two traces of the same model over the same texts. Throws Error (bad_file) if they are not, (usage) if the policy does
// not fit.
[[nodiscard]] Drift drift(const ExitTrace& before, const ExitTrace& after, const PolicySpec& policy);

// "cpu/avx512 bf16 → cpu/amx int8: 0.3 % of labels and 1.2 % of exits change (entropy:0.2, 872 texts)".
[[nodiscard]] std::string drift_line(const ExitTrace& before, const ExitTrace& after, const PolicySpec& policy);

}  // namespace exeunt
