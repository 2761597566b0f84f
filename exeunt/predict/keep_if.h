// SPDX-License-Identifier: Apache-2.0
// Which answers a job writes: 'label=NAME' (of several labels: it is among them), 'NAME>=T' (its score), '>=T' (the
// value).
#pragma once

#include <optional>
#include <string_view>

#include "exeunt/engine/engine.h"

namespace exeunt {

class KeepIf {
 public:
  // Throws Error (usage) for another text, and where the model gives no such answer.
  KeepIf(std::string_view text, OutputSpec outputs);

  [[nodiscard]] bool operator()(const Answer& answer) const;

 private:
  OutputSpec outputs_;
  int label_ = 0;
  std::optional<double> least_ = {};  // of the score or the value; none: the label is given
};

}  // namespace exeunt
