// SPDX-License-Identifier: Apache-2.0
// Bytes as a split of some task of the table; the first byte chooses which. Bad rows are collected, then refused.
#include "exeunt/data/dataset.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto& tasks = exeunt::all_tasks();
  const exeunt::Task& task = tasks[data[0] % tasks.size()];
  const exeunt::SplitFile& file = task.splits[data[0] / tasks.size() % task.splits.size()];
  const auto bytes = exeunt::text_of(data + 1, size - 1);
  size_t bad = 0;
  exeunt::read_or_refuse([&] {
    const exeunt::Dataset read =
        exeunt::parse_split(task, file.split, bytes, "input", [&](const exeunt::Error&) { ++bad; });
    exeunt::check(read.skipped >= static_cast<int64_t>(bad), "a bad row is left out");
    for (const auto& example : read.examples) {
      const bool known = task.regression() || !file.label.wanted() ||
                         (example.gold >= 0 && example.gold < static_cast<float>(task.labels.size()));
      exeunt::check(known && example.pair.has_value() == file.pair.wanted(), "an accepted row is whole");
    }
  });
  return exeunt::read_or_refuse([&] {
    (void)exeunt::parse_split(task, file.split, bytes, "input");
    exeunt::check(bad == 0, "a bad row is refused");
  });
}
