// SPDX-License-Identifier: Apache-2.0
// A part of a job, as `exeunt merge` reads it.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exeunt/predict/shards.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt;
  const int file = ::memfd_create("part", 0);
  check(file >= 0 && ::write(file, data, size) == static_cast<ssize_t>(size), "a file in memory");
  read_or_refuse([&] { (void)merge_shards({fmt::format("/proc/self/fd/{}", file)}, [](std::string_view) {}); });
  ::close(file);
  return 0;
}
