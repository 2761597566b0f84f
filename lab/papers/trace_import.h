// SPDX-License-Identifier: Apache-2.0
// A trace imported from arrays that other software wrote, so that its models can be swept and calibrated.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

struct TraceImport {
  std::filesystem::path logits = {};     // .npy [rows, exits, outputs]; one output means regression
  std::filesystem::path gold = {};       // .npy [rows]; empty = none
  std::vector<std::string> labels = {};  // names of the classes; empty = "0", "1", …
  std::vector<int> layers = {};          // of the exits; empty = 1, 2, …
  std::string task = {}, split = {}, tool = {}, created = {};
};

// Throws Error: bad_file for what the arrays hold, usage for labels or layers that do not fit them.
[[nodiscard]] ExitTrace import_trace(const TraceImport& source);

}  // namespace exeunt
