// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/region.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "exeunt/base/error.h"

namespace exeunt {

Region::Region(size_t bytes, std::string_view what) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(Code::resources,
                fmt::format("{}: no memory: cannot map {} bytes: {}", what, bytes, std::strerror(errno)),
                "use a smaller model or fewer threads");
  }
  ::madvise(data, bytes, MADV_HUGEPAGE);  // a hint: failure only costs speed
  data_ = {static_cast<std::byte*>(data), Unmap{bytes}};
}

void Region::Unmap::operator()(std::byte* data) const noexcept {
  ::munmap(data, bytes);
}

}  // namespace exeunt
