// SPDX-License-Identifier: Apache-2.0
// What libstdc++ of GCC 12 asks of newer C libraries than the one that EXEUNT_GLIBC_ROOT has.
#include <cstdint>

#include <sys/random.h>

extern "C" {
char __libc_single_threaded;  // glibc 2.32; 0: other threads may run

std::uint32_t arc4random() {  // glibc 2.36, for std::random_device
  std::uint32_t drawn = 0;
  while (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) {
  }
  return drawn;
}
}
