// SPDX-License-Identifier: Apache-2.0
// Stands in where NCCL or its headers are missing.
#include "exeunt/base/error.h"
#include "exeunt/train/world.h"

namespace exeunt::nn {

bool has_nccl() noexcept {
  return false;
}

AllReduce join_over_nccl(const Rendezvous&) {
  throw Error(Code::resources, "this exeunt-train was built without NCCL and trains on one GPU",
              "build it with a LibTorch that has CUDA and with nccl.h, or train with --device cpu");
}

}  // namespace exeunt::nn
