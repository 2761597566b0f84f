// SPDX-License-Identifier: Apache-2.0
// Streams of texts: the first byte chooses the form, the rest is the file.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exeunt/data/text_stream.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt;
  if (size == 0) return 0;
  const int file = ::memfd_create("texts", 0);
  check(file >= 0 && ::write(file, data + 1, size - 1) == static_cast<ssize_t>(size - 1), "a file in memory");
  const TextColumns columns{.form = static_cast<DataFormat>(data[0] % 4),
                            .text = "a",
                            .pair = (data[0] & 16) != 0 ? "b" : "",
                            .tab_pair = (data[0] & 32) != 0};
  read_or_refuse([&] {
    TextStream stream(fmt::format("/proc/self/fd/{}", file), columns);
    int64_t rows = 0;
    for (TextRow row; stream.next(row);) check(row.index == rows++, "rows are counted");
    check(stream.bytes_read() == static_cast<int64_t>(size - 1), "all of the file was read");
  });
  ::close(file);
  return 0;
}
