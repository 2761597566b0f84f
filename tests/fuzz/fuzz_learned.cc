// SPDX-License-Identifier: Apache-2.0
// Bytes as the list of what a model learned (learned.safetensors); what is accepted can be asked about texts.
#include <array>

#include "exeunt/data/learned_rows.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    exeunt::LearnedRows learned = exeunt::LearnedRows::parse(exeunt::bytes_of(data, size), "input");
    for (const int64_t length : learned.max_lengths())
      exeunt::check(length >= 1 && length <= 1 << 20, "a text can be truncated to every max-length");
    std::array<int32_t, 130> text{};
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i * size % 97);
    (void)learned.overlap(text);
    const exeunt::LearnedRows::Row row(text);
    learned.add({&row, 1}, 128);
    exeunt::check(learned.overlap(text) == exeunt::Overlap::equal, "what was learned is known again");
  });
}
