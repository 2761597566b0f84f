// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/region.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <sys/mman.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kLargest = std::numeric_limits<size_t>::max() / 2;

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  throw Error(Code::resources, fmt::format("{}: no memory: {}", what, why), "use a smaller model or fewer threads");
}

}  // namespace

Region::Region(size_t bytes, std::string_view what) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) refuse(what, fmt::format("cannot map {} bytes: {}", bytes, std::strerror(errno)));
  ::madvise(data, bytes, MADV_HUGEPAGE);  // a hint: failure only costs speed
  data_ = static_cast<std::byte*>(data);
  size_ = bytes;
}

Region::~Region() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

size_t RegionPlan::add(size_t bytes) {
  const size_t place = size_;
  if (bytes > kLargest - kKernelAlignment || place > kLargest - kKernelAlignment - bytes)
    refuse("model", "its sizes exceed what can be addressed");
  size_ = place + (bytes + kKernelAlignment - 1) / kKernelAlignment * kKernelAlignment;
  return place;
}

size_t RegionPlan::add(size_t count, size_t element_size) {
  if (element_size != 0 && count > kLargest / element_size) refuse("model", "its sizes exceed what can be addressed");
  return add(count * element_size);
}

}  // namespace exeunt
