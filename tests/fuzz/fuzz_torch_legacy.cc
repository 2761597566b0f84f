// SPDX-License-Identifier: Apache-2.0
// Bytes as a file of PyTorch before 1.6: pickles one after the other, then storages.
#include "exeunt/model/torch_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse(
      [&] { exeunt::touch_all(exeunt::parse_torch_legacy(exeunt::bytes_of(data, size), "input")); });
}
