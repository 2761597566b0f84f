// SPDX-License-Identifier: Apache-2.0
// NumPy itself, if it is installed: Debian's python3-numpy.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "tests/fixtures/scratch.h"

namespace exeunt {

// Whether the script, run in `folder` with NumPy as np, ends without an exception.
inline bool numpy_says(const std::filesystem::path& folder, const std::string& script) {
  const Scratch scratch;
  const auto file = scratch.write("check.py", "import numpy as np\n" + script);
  return std::system(fmt::format("cd '{}' && /usr/bin/python3 '{}'", folder.string(), file.string()).c_str()) == 0;
}

}  // namespace exeunt
