// SPDX-License-Identifier: Apache-2.0
// Not measured on this architecture.
#include "exeunt/engine/cpu/register_peak.h"

namespace exeunt {

double register_peak(std::string_view, Precision) {
  return 0;
}

}  // namespace exeunt
