// SPDX-License-Identifier: Apache-2.0
// Distinct texts drawn at random from files of any size. Equal token ids are one text, whatever the bytes; which are
// drawn depends on the seed and on the set of texts, not on their order or on how often each occurs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/data/text_stream.h"
#include "exeunt/eval/measure.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct DrawOptions {
  std::vector<std::string> files = {};  // "-" is standard input
  TextColumns columns = {};             // the first that is kept names the clusters
  int64_t limit = 20000;                // the largest number drawn
  size_t memory = size_t{384} << 20;    // and what they may take
  int max_length = 128;
  int threads = 0;
  uint64_t seed = 42;
};

struct DrawnTexts {
  std::vector<Example> texts = {};  // in random order; gold is NaN where there is no label
  std::vector<Encoding> tokens = {};
  int64_t rows = 0, blank = 0, truncated = 0;  // of all that was read
  int64_t distinct = 0;                        // exact if all were drawn, else an estimate
  size_t bytes = 0;                            // that the texts take, about
  bool crowded = false;                        // fewer than the limit were drawn, because more would take too much
  std::string sha256 = {};                     // of the files' bytes
};

// Reads the files, then the labelled rows (if any). Throws Error as TextStream does; bad_file if all rows are blank.
[[nodiscard]] DrawnTexts draw_texts(const DrawOptions& options, const Dataset* labelled, const Tokenizer& tokenizer,
                                    const Observer& observer);

// Adds those of `more` that are not there yet, up to `limit` in all.
void add_texts(DrawnTexts& drawn, DrawnTexts&& more, int64_t limit);

}  // namespace exeunt
