// SPDX-License-Identifier: Apache-2.0
// On this architecture nothing is measured.
#include "exeunt/runtime/cpu/register_peak.h"

namespace exeunt {

double register_peak(std::string_view, Precision) {
  return 0;
}

}  // namespace exeunt
