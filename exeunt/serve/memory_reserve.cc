// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace exeunt::serve {
namespace {

std::atomic<void*> held = nullptr;

void give_reserve() {
  void* reserve = held.exchange(nullptr);
  if (reserve == nullptr) throw std::bad_alloc();
  std::free(reserve);
}

}  // namespace

MemoryReserve::MemoryReserve(size_t bytes) : bytes_(bytes) {
  (void)whole();
  std::set_new_handler(give_reserve);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(nullptr);
  std::free(held.exchange(nullptr));
}

bool MemoryReserve::whole() const noexcept {
  if (held.load(std::memory_order_relaxed) != nullptr) return true;
  void* again = std::malloc(bytes_);
  if (again == nullptr) return false;
  void* none = nullptr;
  if (!held.compare_exchange_strong(none, again)) std::free(again);  // another thread was faster
  return true;
}

}  // namespace exeunt::serve
