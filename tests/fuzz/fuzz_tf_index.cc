// SPDX-License-Identifier: Apache-2.0
// Bytes as the index of a TensorFlow checkpoint, over shards of zeroes. Checksums are not held, or no changed input
// would get past them.
#include "lab/tensorflow/tf_bundle.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt;
  return read_or_refuse([&] {
    const TfIndex index = parse_tf_index(bytes_of(data, size), "input", CrcCheck::skip);
    static const std::vector<std::byte> zeroes(4096);
    const std::vector<TfShard> shards(index.shards, TfShard{.where = "shard", .bytes = zeroes});
    touch_all(view_tf_tensors(index, shards, CrcCheck::skip));
  });
}
