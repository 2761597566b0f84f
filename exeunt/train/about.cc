// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/about.h"

#include "exeunt/train/group.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt {

TrainerAbout about_trainer() {
  return {.torch = nn::compat::version(),
          .gpus = nn::compat::has_cuda() ? static_cast<int>(torch::cuda::device_count()) : 0,
          .gloo = nn::has_gloo(),
          .nccl = nn::has_nccl()};
}

}  // namespace exeunt
