// SPDX-License-Identifier: Apache-2.0
// The end of a step that is recorded: clipping and AdamW, each one launch over all tensors. A recording's gradients lie
// at the same place whenever it is played, so their lists are made once; the host sends a few numbers before every
// step.
#pragma once

#include <vector>

#include "exeunt/train/adamw.h"
#include "exeunt/train/gpu.h"

namespace exeunt::nn {

class RecordedAdam {
 public:
  // Gives every slot of `adam`, which must outlive this, its state. `parameters`: all that may have a gradient.
  RecordedAdam(AdamW& adam, std::vector<Tensor> parameters);

  // Of one recording.
  struct Lists {
    gpu::TensorWalk norm, adam;
    std::vector<size_t> slots = {};  // of AdamW, that have a gradient
    void upload();                   // when the recording is made
  };
  [[nodiscard]] Lists make_lists() const;

  // While a step is recorded: clips `gradients` to the common norm `most`, which goes to norm [1], and updates every
  // parameter that has a gradient.
  void work(Lists& lists, const std::vector<Tensor>& gradients, double most, Tensor norm);
  // Before it is played: counts the updates and sends what they depend on.
  void send_numbers(const Lists& lists, double schedule);

 private:
  AdamW& adam_;
  std::vector<Tensor> parameters_;
  Tensor numbers_;  // [slots, 4], for the step that is played
  Tensor factor_;   // of clipping
};

}  // namespace exeunt::nn
