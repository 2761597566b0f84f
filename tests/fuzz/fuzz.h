// SPDX-License-Identifier: Apache-2.0
// What every fuzz target does: a reader takes its input or refuses it with Error. Anything else (another exception,
// a failed check(), bad_alloc, a sanitizer's report) is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "exeunt/base/error.h"

namespace exeunt {

inline std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

template <class Read>
int read_or_refuse(Read&& read) {
  try {
    read();
  } catch (const Error&) {  // refused, as it should be
  }
  return 0;
}

// What we wrote ourselves must be read: refusing it is a finding, too.
template <class Read>
auto read_ours(Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    check(false, error.what());
    throw;
  }
}

}  // namespace exeunt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
