// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/answer_labels.h"

#include <algorithm>

namespace exeunt {

int best_label(const ExitLayout& exits, std::span<const float> logits) {
  if (exits.problem == Problem::regression) return -1;
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<int> labels_of(const ExitLayout& exits, std::span<const float> logits) {
  if (exits.problem == Problem::regression) return {};
  if (exits.problem == Problem::classification) return {best_label(exits, logits)};
  const Reading reading = reading_of(exits, logits.data());
  std::vector<int> out;
  for (int c = 0; c < reading.classes; ++c)
    if (has_label(reading.logits, reading.cuts, c)) out.push_back(c);
  return out;
}

}  // namespace exeunt
