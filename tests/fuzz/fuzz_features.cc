// SPDX-License-Identifier: Apache-2.0
// Bytes as a feature file; what is accepted must be readable to its last token, and make batches.
#include "exeunt/data/batches.h"
#include "exeunt/data/features.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const exeunt::Features features = exeunt::parse_features(exeunt::bytes_of(data, size), "input");
    int64_t sum = 0;
    for (size_t row = 0; row < features.rows(); ++row) {
      for (const int32_t id : features.ids_of(row)) sum += id;
      for (const uint8_t type : features.types_of(row)) sum += type;
    }
    exeunt::check(sum >= 0, "ids are not negative");
    (void)exeunt::bucketed_batches(features.offsets, {.rows = 4, .tokens = 64});
  });
}
