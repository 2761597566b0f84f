// SPDX-License-Identifier: Apache-2.0
// Any other architecture: no features known, portable kernels only.
#include "exeunt/base/parallel.h"
#include "exeunt/engine/cpu/cpu_features.h"

namespace exeunt {

CpuFeatures cpu_features() {
  CpuFeatures f;
  f.name = "unknown";
  f.architecture = "unknown";
  f.threads = thread_count(0);
  return f;
}

}  // namespace exeunt
