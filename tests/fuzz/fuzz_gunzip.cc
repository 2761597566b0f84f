// SPDX-License-Identifier: Apache-2.0
// Bytes as a gzip file: unpacked at once and in small pieces, which must come to the same.
#include "exeunt/base/gunzip.h"
#include "tests/fuzz/fuzz.h"

namespace {

constexpr uint64_t kMost = 1 << 20;

std::string in_pieces(std::string_view packed) {
  exeunt::GzipReader reader(
      [&](std::span<char> out) {
        const size_t count = packed.copy(out.data(), std::min<size_t>(out.size(), 7));
        packed.remove_prefix(count);
        return count;
      },
      "input");
  std::string all;
  char piece[13];
  for (size_t got = 1; got > 0 && all.size() <= kMost; all.append(piece, got)) got = reader.read(piece);
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view packed = exeunt::text_of(data, size);
  return exeunt::read_or_refuse([&] {
    const auto read = exeunt::unpacking(packed, "input", kMost);
    std::string whole(kMost + 1, 0);
    whole.resize(read(whole));
    exeunt::check(in_pieces(packed) == whole, "pieces of any size come to the same");
  });
}
