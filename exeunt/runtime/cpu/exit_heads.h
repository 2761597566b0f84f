// SPDX-License-Identifier: Apache-2.0
// The heads of a packed model: from the rows of a layer to an exit's logits. Nothing here allocates.
#pragma once

#include "exeunt/runtime/cpu/crew.h"
#include "exeunt/runtime/cpu/packed_model.h"
#include "exeunt/runtime/cpu/workspace.h"

namespace exeunt {

// The output of a layer as exits see it.
struct LayerRows {
  const float* first = nullptr;  // [hidden]
  const float* all = nullptr;    // [tokens, hidden]; null if only row 0 is available
  int tokens = 0;
};

class ExitHeads {
 public:
  ExitHeads(const PackedModel& model, Workspace& space, Crew::Member& member)
      : model_(model), space_(space), member_(member) {}

  // Writes [outputs] raw logits; returns the score of the learning-to-exit head, 0 without one.
  float run(const ExitSite& site, const LayerRows& rows, float* logits) noexcept;
  // The same for DeeBERT's ramp of the last layer. The model has one.
  void run_ramp(const LayerRows& rows, float* logits) noexcept;

 private:
  void gather(const ExitSite& site, const LayerRows& rows) noexcept;  // → exit_input
  void multiply(const PackedWeight& weight, const float* input, float* out) noexcept;
  void multiply(const PlainWeight& weight, const float* input, float* out) const noexcept;

  const PackedModel& model_;
  Workspace& space_;
  Crew::Member& member_;
};

}  // namespace exeunt
