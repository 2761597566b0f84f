// SPDX-License-Identifier: Apache-2.0
// Numbers as Python prints them, for outputs that Python programs of others wrote before us.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace exeunt {

// str(float): the shortest digits that read back, "0.1", "1.0", "1e-05", "nan".
[[nodiscard]] std::string python_float(double value);

// str(dict) of whole numbers: "{1: 0, 2: 49}".
[[nodiscard]] std::string python_dict(const std::map<int, int64_t>& values);

}  // namespace exeunt
