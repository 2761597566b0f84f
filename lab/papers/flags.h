// SPDX-License-Identifier: Apache-2.0
// Flags of the five papers' scripts and of Hugging Face's run_glue on our command lines: the current name, why one is
// not needed, or why one is rejected. Underscores in flags become dashes: `--max_length` is `--max-length`.
#pragma once

#include <string>
#include <vector>

namespace exeunt {

struct Arguments {
  std::vector<std::string> words;    // after the program's name
  std::vector<std::string> notices;  // one line for each old name
};

// For the verbs that measure.
[[nodiscard]] Arguments with_current_names(std::vector<std::string> words);

// For `exeunt train`. "False" after a flag means the same as omitting it. Throws Error (usage) for a rejected flag.
[[nodiscard]] Arguments with_current_training_names(std::vector<std::string> words);

}  // namespace exeunt
