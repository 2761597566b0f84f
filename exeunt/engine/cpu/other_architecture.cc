// SPDX-License-Identifier: Apache-2.0
// Any other architecture: no features known, portable kernels only, whose peak is not measured.
#include "exeunt/base/parallel.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/register_peak.h"

namespace exeunt {

CpuFeatures cpu_features() {
  return {.name = "unknown", .architecture = "unknown", .threads = thread_count(0)};
}

double register_peak(std::string_view, Precision) {
  return 0;
}

}  // namespace exeunt
