// SPDX-License-Identifier: Apache-2.0
// The memory that reading something takes: read in a process of its own, whose peak is then known.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt {

constexpr long kAllowance = 64 << 10;  // in KiB, as the kernel counts

inline long peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Makes the heap as fragmented as it can be for a growing list: nothing large fits into what was freed before, and the
// blocks that the list leaves behind do not adjoin, so that they can be neither reused nor given back.
inline void fragment_heap() {
  constexpr size_t kLarge = size_t{256} << 10;
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  const void* end = ::sbrk(0);
  const void* filler = nullptr;
  do {
    filler = ::malloc(kLarge);
  } while (filler != nullptr && std::less<>{}(filler, end));
  static std::array<void*, 9> blocks, between;  // static, or the compiler may leave out what nobody reads
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = ::malloc(kLarge << i);
    between[i] = ::malloc(kLarge);
  }
  for (void* block : blocks) ::free(block);
}

// By how many KiB the peak of a new process grows while it runs `read`; an Error is an answer like any other.
inline long peak_growth(const std::function<void()>& read) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  ::malloc_trim(0);  // what this process has freed would hide what the other takes
  const pid_t child = ::fork();
  if (child == 0) {
    fragment_heap();
    const long before = peak_kib();
    try {
      read();
    } catch (const Error&) {
    }
    const long grown = peak_kib() - before;
    ::_exit(::write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  long grown = -1;
  if (::read(ends[0], &grown, sizeof grown) != sizeof grown) grown = -1;
  ::close(ends[0]);
  ::close(ends[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? grown : -1;
}

}  // namespace exeunt
