// SPDX-License-Identifier: Apache-2.0
// Text as a file of scores, compared with what every paper published.
#include "lab/papers/reproduction.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const auto scores = exeunt::parse_json(exeunt::text_of(data, size), "input");
    const auto& papers = exeunt::all_papers();
    const exeunt::Paper& paper = papers[size % papers.size()];
    for (const auto& reached : exeunt::reached_in(scores, "input", paper, exeunt::tasks_of(paper).back())) {
      for (const auto& row : exeunt::compare(paper, reached)) (void)exeunt::comparison_json(row).dump();
    }
  });
}
