// SPDX-License-Identifier: Apache-2.0
// Tokenizes the lines of a file on one thread for at least SECONDS, and prints the best pass as bytes per second of
// CPU time, which other programs on the machine do not affect. Our side of benchmarks/peers/tokenizers.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/text/tokenizer.h"

namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 4) {
    std::fputs("usage: tokenizer_throughput FOLDER LINES SECONDS\n", stderr);
    return 2;
  }
  const auto tokenizer = exeunt::load_tokenizer(arguments[1]);
  const std::string text = exeunt::read_text(arguments[2]);
  const double seconds = std::atof(arguments[3]);
  std::vector<std::string_view> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!line.empty()) lines.push_back(line);
  }
  const exeunt::EncodeOptions options{.max_length = INT_MAX};
  double best = 1e300;
  double total = 0;
  size_t tokens = 0;
  while (total < seconds) {
    const double start = processor_seconds();
    tokens = 0;
    for (const std::string_view line : lines) tokens += tokenizer->encode(line, std::nullopt, options).ids.size();
    const double pass = processor_seconds() - start;
    best = std::min(best, pass);
    total += pass;
  }
  std::printf("{\"bytes_per_second\": %.0f, \"tokens\": %zu}\n", static_cast<double>(text.size()) / best, tokens);
  return 0;
} catch (const exeunt::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return static_cast<int>(error.code());
}
