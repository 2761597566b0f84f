// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cuda/failure.h"

#include "exeunt/base/error.h"

namespace exeunt {

void throw_cuda_failure(std::string_view what, std::string_view reason) {
  throw Error(Code::resources, fmt::format("CUDA: {} failed: {}", what, reason));
}

}  // namespace exeunt
