// SPDX-License-Identifier: Apache-2.0
// Error reporting for CUDA code, separate from the .cu files so that nvcc need not parse the formatting library.
#pragma once

#include <string_view>

namespace exeunt {

[[noreturn]] void throw_cuda_failure(std::string_view what, std::string_view reason);  // Error, Code::resources

}  // namespace exeunt
