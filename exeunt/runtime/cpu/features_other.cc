// SPDX-License-Identifier: Apache-2.0
// Any other architecture: no features known, portable kernels only.
#include <thread>

#include "exeunt/runtime/cpu/cpu_features.h"

namespace exeunt {

CpuFeatures cpu_features() {
  CpuFeatures f;
  f.name = "unknown";
  f.architecture = "unknown";
  f.threads = static_cast<int>(std::thread::hardware_concurrency());
  if (f.threads < 1) f.threads = 1;
  return f;
}

}  // namespace exeunt
