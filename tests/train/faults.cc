// SPDX-License-Identifier: Apache-2.0
// The program's own definitions come before those of the C library, for our code and for the C++ library alike.
#include "tests/train/faults.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace exeunt {
namespace {

std::atomic<int> armed{0}, seen{0};

// True if this call is the one that fails.
bool fails() noexcept {
  if (armed == 0) return false;
  if (++seen != armed) return false;
  errno = ENOSPC;
  return true;
}

template <class Function>
Function* real(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void fail_call(int nth) noexcept {
  seen = 0;
  armed = nth;
}
int calls_seen() noexcept {
  return seen;
}

}  // namespace exeunt

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (exeunt::fails()) return -1;
  return exeunt::real<ssize_t(int, const void*, size_t)>("write")(descriptor, bytes, count);
}

int fsync(int descriptor) {
  if (exeunt::fails()) return -1;
  return exeunt::real<int(int)>("fsync")(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  if (exeunt::fails()) return -1;
  return exeunt::real<int(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (exeunt::fails()) return -1;
  return exeunt::real<int(const char*, mode_t)>("mkdir")(path, mode);
}

int open(const char* path, int flags, ...) {
  if ((flags & O_CREAT) != 0 && exeunt::fails()) return -1;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return exeunt::real<int(const char*, int, ...)>("open")(path, flags, mode);
}

}  // extern "C"
