// SPDX-License-Identifier: Apache-2.0
// Bytes as the user's JSONL, bad rows collected: whatever a line holds, the others are read.
#include "exeunt/data/user_data.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  exeunt::UserColumns columns;
  columns.text = "t";
  columns.label = "l";
  columns.format = exeunt::DataFormat::jsonl;
  const auto bytes = exeunt::text_of(data, size);
  size_t bad = 0;
  exeunt::read_or_refuse([&] {
    const exeunt::Dataset read = exeunt::parse_user_data(bytes, "input", columns, [&](const exeunt::Error&) { ++bad; });
    // Blank texts are left out, too, without a complaint.
    exeunt::check(read.skipped >= static_cast<int64_t>(bad), "a bad row is left out and counted");
  });
  return exeunt::read_or_refuse([&] { (void)exeunt::parse_user_data(bytes, "input", columns); });
}
