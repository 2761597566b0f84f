// SPDX-License-Identifier: Apache-2.0
// Feeds every file of a folder to one fuzz target: libFuzzer's corpus as an ordinary test, for any compiler.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace fs = std::filesystem;

namespace {

void replay(const fs::path& file) {
  std::fprintf(stderr, "%s\n", file.filename().c_str());  // the last name printed is the one that crashed
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> content{std::istreambuf_iterator<char>(stream), {}};
  // A copy of exactly this size, on the heap: a read beyond its end is seen by the address sanitizer.
  const std::vector<uint8_t> exact(content.begin(), content.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2 || !fs::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: %s FOLDER (of inputs)\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(argv[1])) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) replay(file);
  std::printf("%zu inputs replayed\n", files.size());
  return files.empty() ? 1 : 0;  // a corpus without inputs tests nothing
} catch (const std::exception& error) {
  std::fprintf(stderr, "an exception that is no Error: %s\n", error.what());
  return 1;
}
