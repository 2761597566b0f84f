// SPDX-License-Identifier: Apache-2.0
// SHA-256 with the CPU's instructions and in portable code: the former must keep up with a fast disk.
#include <vector>

#include <benchmark/benchmark.h>

#include "exeunt/base/sha256_blocks.h"

namespace exeunt {
namespace {

template <auto Blocks>
void hash(benchmark::State& state) {
  const std::vector<uint8_t> data(size_t{1} << 20, 7);
  uint32_t words[8] = {};
  for (auto _ : state) {
    Blocks(words, data.data(), data.size() / 64);
    benchmark::DoNotOptimize(words);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * data.size()));
}

BENCHMARK(hash<sha256_blocks>)->Name("sha256/cpu");
BENCHMARK(hash<sha256_blocks_plain>)->Name("sha256/plain");

}  // namespace
}  // namespace exeunt
