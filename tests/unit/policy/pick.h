// SPDX-License-Identifier: Apache-2.0
// A value from a range for property tests, spread over all of it from the first case on (rapidcheck's own ranges grow
// with the case number, which rarely reaches the far end).
#pragma once

#include <rapidcheck.h>

namespace exeunt {

template <class Number>
Number pick(Number low, Number end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Number>(low, end));
}

}  // namespace exeunt
