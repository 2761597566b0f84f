// SPDX-License-Identifier: Apache-2.0
// The program's own definitions come before those of the C library, for our code and for the C++ library alike.
#include "tests/unit/train/faults.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace exeunt {
namespace {

std::atomic<int> failing{0}, killing{0}, seen{0};

// Whether this call is the one that kills.
bool kills() noexcept {
  return killing != 0 && ++seen == killing;
}

void kill_here() noexcept {
  (void)::raise(SIGKILL);
}

// True if this call is the one that fails.
bool runs_out() noexcept {
  if (failing == 0 || ++seen != failing) return false;
  errno = ENOSPC;
  return true;
}

bool fails() noexcept {
  if (kills()) kill_here();
  return runs_out();
}

template <class Function>
Function* real(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void fail_call(int nth) noexcept {
  seen = killing = 0;
  failing = nth;
}
void kill_at_call(int nth) noexcept {
  seen = failing = 0;
  killing = nth;
}
int calls_seen() noexcept {
  return seen;
}

}  // namespace exeunt

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t count) {
  const auto real = exeunt::real<ssize_t(int, const void*, size_t)>("write");
  if (exeunt::kills()) {
    (void)real(descriptor, bytes, count / 2);
    exeunt::kill_here();
  }
  if (exeunt::runs_out()) return -1;
  return real(descriptor, bytes, count);
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

int unlink(const char* path) noexcept {
  if (exeunt::kills()) exeunt::kill_here();
  return exeunt::real<int(const char*)>("unlink")(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (exeunt::kills()) exeunt::kill_here();
  return exeunt::real<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

}  // extern "C"
