// SPDX-License-Identifier: Apache-2.0
// Bytes as a safetensors file; what is accepted must be readable to its last element.
#include "exeunt/base/safetensors.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const exeunt::TensorSet set = exeunt::parse_safetensors(exeunt::bytes_of(data, size), "input");
    for (const auto& [name, view] : set.tensors) {
      if (exeunt::is_floating(view.dtype)) (void)exeunt::to_floats(view);
    }
  });
}
