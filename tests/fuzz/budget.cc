// SPDX-License-Identifier: Apache-2.0
// Time and memory that one input may take, relative to its size: linked around every libFuzzer target by the linker's
// --wrap. A fixed limit of seconds finds a quadratic reader only in inputs so large that no fuzzer tries them.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <sanitizer/allocator_interface.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker makes these names
extern "C" int __real_LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// With the sanitizers' own overhead, and for targets that read their input several times.
constexpr double kSeconds = 1, kSecondsPerByte = 20e-6;
constexpr int64_t kBytes = int64_t{96} << 20, kBytesPerByte = 64;

std::atomic<int64_t> held = 0, most = 0;

void allocated(const volatile void* /*place*/, size_t bytes) {
  const int64_t now = held += static_cast<int64_t>(bytes);
  int64_t before = most;
  while (now > before && !most.compare_exchange_weak(before, now)) {
  }
}

void freed(const volatile void* place) {
  if (place != nullptr) held -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<void*>(place)));
}

// Of all threads: a server works on others than the one that asks.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

extern "C" int __wrap_LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool hooked = __sanitizer_install_malloc_and_free_hooks(allocated, freed) != 0;
  const int64_t held_before = held;
  most = held_before;
  const double begin = processor_seconds();
  const int result = __real_LLVMFuzzerTestOneInput(data, size);
  const double took = processor_seconds() - begin;
  const int64_t grown = most - held_before;
  const double most_seconds = kSeconds + kSecondsPerByte * static_cast<double>(size);
  const int64_t most_bytes = kBytes + kBytesPerByte * static_cast<int64_t>(size);
  if (took > most_seconds || (hooked && grown > most_bytes)) {
    std::fprintf(stderr,
                 "an input of %zu bytes took %.2f s, want at most %.2f, and %lld bytes of memory, want at most %lld\n",
                 size, took, most_seconds, static_cast<long long>(grown), static_cast<long long>(most_bytes));
    std::abort();
  }
  return result;
}
// NOLINTEND(bugprone-reserved-identifier)
