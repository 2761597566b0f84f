// SPDX-License-Identifier: Apache-2.0
// A small model in a folder of ours, and texts to run it on.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "exeunt/base/files.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/eval/measure.h"
#include "exeunt/model/exeunt_folder.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {

inline Observer quiet() {
  return {.progress = progress_on_stderr(true)};
}

// A table of texts that hardly repeat, always the same.
inline std::string varied_texts(size_t rows) {
  const char* words[] = {"film", "plot", "actor", "story", "book", "song",   "meal",   "good", "bad",   "great",
                         "dull", "fine", "poor",  "slow",  "fast", "warm",   "cold",   "sad",  "happy", "the",
                         "a",    "is",   "was",   "not",   "very", "clever", "boring", "best", "worst", "never"};
  std::string csv = "text\n";
  uint32_t state = 1;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t word = 0, count = 3 + row % 9; word < count; ++word) {
      state = state * 1664525 + 1013904223;
      csv += std::string(words[(state >> 16) % std::size(words)]) + (word + 1 < count ? " " : "\n");
    }
  }
  return csv;
}

// A folder of ours and a file of texts without labels.
struct SmallModel {
  SmallModel() {
    ::setenv("XDG_STATE_HOME", (scratch.path() / "state").c_str(), 1);  // where tries are counted
    (void)write_exeunt_folder(Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert"), folder);
    const char* words[] = {"great", "dull", "film", "plot", "good", "bad", "so", "the"};
    std::string csv = "text\n";
    for (size_t row = 0; row < 300; ++row)
      for (size_t word = 0, count = 2 + row % 6; word < count; ++word)
        csv += std::string(words[(row * 7 + word * (row % 5 + 1)) % 8]) + (word + 1 < count ? " " : "\n");
    data = scratch.write("texts.csv", csv).string();
  }
  void keep_wider(const Exceptions& exceptions) const {
    write_atomically(folder / kPrecisionFile, precision_map_text({.by_precision = {{Precision::int8, exceptions}}}));
  }
  [[nodiscard]] MeasureOptions options() const {
    MeasureOptions out{.model = folder.string(), .data = {.path = data}, .precision = "int8"};
    out.data.columns.label.clear();
    return out;
  }

  Scratch scratch = Scratch(quick_parent());
  std::filesystem::path folder = scratch.path() / "model";
  std::string data = {};
};

}  // namespace exeunt
