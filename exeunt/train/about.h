// SPDX-License-Identifier: Apache-2.0
// What this build of the trainer and this machine bring along, for `exeunt doctor`. No torch in this header.
#pragma once

#include <string>

namespace exeunt {

struct TrainerAbout {
  std::string torch;                // LibTorch's version
  int gpus = 0;                     // that LibTorch can use
  bool gloo = false, nccl = false;  // ways for several processes to train together
};
[[nodiscard]] TrainerAbout about_trainer();

}  // namespace exeunt
