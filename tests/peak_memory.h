// SPDX-License-Identifier: Apache-2.0
// The memory that reading something takes: read in a process of its own, whose peak is then known.
#pragma once

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

// By how many KiB the peak of a new process grows while it runs `read`; an Error is an answer like any other.
inline long peak_growth(const std::function<void()>& read) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  ::malloc_trim(0);  // what this process has freed would hide what the other takes
  const pid_t child = ::fork();
  if (child == 0) {
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
