// SPDX-License-Identifier: Apache-2.0
// Someone who is told nothing.
#pragma once

#include "exeunt/eval/measure.h"

namespace exeunt {

inline Observer silent() {
  return {.progress = progress_on_stderr(true)};
}

}  // namespace exeunt
