// SPDX-License-Identifier: Apache-2.0
// Bytes as the user's CSV or TSV, with and without labels; the first byte chooses. Every row read again from its
// fields, quoted, must give the same fields.
#include "exeunt/data/rows.h"
#include "exeunt/data/user_data.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string quoted(const exeunt::Row& row) {
  std::string out;
  for (const auto field : row.fields) {
    out += out.empty() ? "\"" : ",\"";
    for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out;
}

void expect_round_trip(std::string_view bytes) {
  exeunt::RowReader reader(bytes, "input", exeunt::DataFormat::csv);
  exeunt::Row row, again;
  while (reader.next(row)) {
    const std::string text = quoted(row);
    exeunt::RowReader second(text, "again", exeunt::DataFormat::csv);
    exeunt::check(second.next(again) && again.fields == row.fields, "quoting keeps a row");
    exeunt::check(!second.next(again), "a quoted row is one row");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  exeunt::UserColumns columns;
  columns.text = "t";
  columns.format = (data[0] & 1) != 0 ? exeunt::DataFormat::tsv : exeunt::DataFormat::csv;
  columns.label.assign((data[0] & 2) != 0 ? 0 : 1, 'l');
  columns.pair.assign((data[0] & 4) != 0 ? 1 : 0, 'p');
  if ((data[0] & 8) != 0)
    columns.problem = (data[0] & 16) != 0 ? exeunt::Problem::regression : exeunt::Problem::classification;
  if ((data[0] & 32) != 0) columns.separator = ';';
  const auto bytes = exeunt::text_of(data + 1, size - 1);
  exeunt::read_or_refuse([&] { expect_round_trip(bytes); });
  return exeunt::read_or_refuse([&] { (void)exeunt::parse_user_data(bytes, "input", columns); });
}
