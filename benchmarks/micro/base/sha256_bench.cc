// SPDX-License-Identifier: Apache-2.0
// SHA-256 must keep up with a fast disk.
#include <vector>

#include <benchmark/benchmark.h>

#include "exeunt/base/sha256.h"

namespace exeunt {
namespace {

void hash(benchmark::State& state) {
  const std::vector<std::byte> data(size_t{1} << 20, std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(sha256_hex(data));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * data.size()));
}

BENCHMARK(hash)->Name("sha256");

}  // namespace
}  // namespace exeunt
