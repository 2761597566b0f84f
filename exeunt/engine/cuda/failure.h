// SPDX-License-Identifier: Apache-2.0
// Error reporting for CUDA code, separate from the .cu files so that nvcc need not parse the formatting library.
#pragma once

#include <cstddef>
#include <string_view>

namespace exeunt {

// Both throw Error, Code::resources.
[[noreturn]] void throw_cuda_failure(std::string_view what, std::string_view reason);
[[noreturn]] void throw_cuda_memory(std::string_view what, size_t bytes, std::string_view reason);

}  // namespace exeunt
