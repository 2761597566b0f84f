// SPDX-License-Identifier: Apache-2.0
// A matcher for lists of numbers.
#pragma once

#include <vector>

#include <gmock/gmock.h>

namespace exeunt {

// Each value within `tolerance` of the wanted one.
inline auto near(const std::vector<float>& want, float tolerance = 1e-6F) {
  return ::testing::Pointwise(::testing::FloatNear(tolerance), want);
}

}  // namespace exeunt
