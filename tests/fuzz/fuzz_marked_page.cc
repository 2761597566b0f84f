// SPDX-License-Identifier: Apache-2.0
// Text as a page with marks; a page that was filled stays as it is when it is filled again.
#include "exeunt/eval/marked_page.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto make = [](const exeunt::MarkedPlace& place) -> std::string { return place.on_lines ? "| 1 |\n" : "1"; };
  return exeunt::read_or_refuse([&] {
    const auto page = exeunt::fill_marks(exeunt::text_of(data, size), "input", make);
    const auto again = exeunt::fill_marks(page.text, "again", make);
    exeunt::check(again.text == page.text && again.places.size() == page.places.size(), "a filled page stays");
    exeunt::check(!exeunt::first_difference(again.text, page.text), "equal pages have no difference");
    (void)exeunt::first_difference(exeunt::text_of(data, size), page.text);
  });
}
