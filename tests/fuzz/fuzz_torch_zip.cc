// SPDX-License-Identifier: Apache-2.0
// Bytes as a zip file of PyTorch. Checksums are not held, or no changed input would get past them.
#include "exeunt/model/torch_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    exeunt::touch_all(exeunt::parse_torch_zip(exeunt::bytes_of(data, size), "input", exeunt::CrcCheck::skip));
  });
}
