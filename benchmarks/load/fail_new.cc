// SPDX-License-Identifier: Apache-2.0
// To be loaded before a program (LD_PRELOAD): makes one allocation of C++ code fail. The file that EXEUNT_FAIL_NEW
// names is shared with the tester.
#include "benchmarks/load/fail_new.h"

#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using exeunt::load::FailNew;

FailNew own;
std::atomic<FailNew*> shared{&own};

bool fails_now(size_t size) {
  FailNew& fail = *shared.load(std::memory_order_relaxed);
  if (fail.left.load(std::memory_order_relaxed) <= 0 || size < fail.bytes.load(std::memory_order_relaxed)) return false;
  return fail.left.fetch_sub(1, std::memory_order_relaxed) == 1;
}

void* allocated(size_t size, size_t alignment) {
  const size_t bytes = size == 0 ? 1 : size;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

// As operator new does it: the handler is asked for more, and may throw.
void* wanted(size_t size, size_t alignment) {
  bool failing = fails_now(size);
  const bool for_good = failing && shared.load()->for_good;
  while (true) {
    if (void* data = failing ? nullptr : allocated(size, alignment); data != nullptr) return data;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr || for_good) throw std::bad_alloc();
    handler();
    failing = false;
  }
}

using Main = int (*)(int, char**, char**);
Main real_main = nullptr;

int counting_main(int count, char** words, char** variables) {
  if (const char* path = std::getenv("EXEUNT_FAIL_NEW"); path != nullptr) {
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    void* memory = ::mmap(nullptr, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) std::abort();
    shared = static_cast<FailNew*>(memory);
  }
  return real_main(count, words, variables);
}

}  // namespace

void* operator new(size_t size) {
  return wanted(size, 0);
}
void* operator new[](size_t size) {
  return wanted(size, 0);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return wanted(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return wanted(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return fails_now(size) ? nullptr : allocated(size, 0);
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete[](void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, size_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, size_t) noexcept {
  std::free(data);
}
void operator delete(void* data, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}

// Everything before main(), such as the making of globals, is let through: nobody could catch its failure.
// NOLINTNEXTLINE(readability-identifier-naming): the name is the C library's
extern "C" int __libc_start_main(Main main, int count, char** words, void (*init)(), void (*fini)(), void (*loader)(),
                                 void* stack) {
  real_main = main;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto next = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(counting_main, count, words, init, fini, loader, stack);
}
