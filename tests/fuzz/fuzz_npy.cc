// SPDX-License-Identifier: Apache-2.0
// Bytes as an .npy file; what is accepted must be readable to its last element.
#include "lab/papers/npy.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse(
      [&] { (void)exeunt::to_doubles(exeunt::parse_npy(exeunt::bytes_of(data, size), "input")); });
}
