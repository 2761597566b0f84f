// SPDX-License-Identifier: Apache-2.0
// Stands in where Gloo's headers are missing.
#include "exeunt/base/error.h"
#include "exeunt/train/world.h"

namespace exeunt::nn {

bool has_gloo() noexcept {
  return false;
}

AllReduce join_over_gloo(const Rendezvous&) {
  throw Error(Code::resources, "this exeunt-train was built without Gloo and trains in one process on a CPU",
              "install libgloo-dev and build again");
}

}  // namespace exeunt::nn
