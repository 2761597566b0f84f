// SPDX-License-Identifier: Apache-2.0
// Answers each case on stdin (a JSON object per line: text, pair, max_length, special_tokens) with one line on stdout:
// [ids, types, offsets], the offsets flat. The other side of run.mjs.
#include <climits>
#include <cstdio>
#include <iostream>
#include <string>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/text/tokenizer.h"

namespace {

std::string answer(const exeunt::Tokenizer& tokenizer, const std::string& line) {
  const exeunt::Json value = exeunt::parse_json(line, "stdin");
  exeunt::JsonObject object(value, "stdin");
  const std::string text = object.string("text");
  const std::string second = object.string_or("pair", "");
  const std::optional<std::string_view> pair =
      object.has("pair") ? std::optional<std::string_view>(second) : std::nullopt;
  exeunt::EncodeOptions options;
  options.max_length = static_cast<int>(object.integer_or("max_length", 0, INT_MAX, INT_MAX));
  options.special_tokens = object.boolean_or("special_tokens", true);
  object.finish();
  const exeunt::Encoding encoding = tokenizer.encode(text, pair, options);

  std::string out = "[[";
  for (const int32_t id : encoding.ids) out += fmt::format("{},", id);
  if (out.back() == ',') out.pop_back();
  out += "],[";
  for (const uint8_t type : encoding.types) out += fmt::format("{},", type);
  if (out.back() == ',') out.pop_back();
  out += "],[";
  for (const auto& [begin, end] : encoding.offsets) out += fmt::format("{},{},", begin, end);
  if (out.back() == ',') out.pop_back();
  return out + "]]\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: parity_driver FOLDER < cases\n", stderr);
    return 2;
  }
  try {
    const auto tokenizer = exeunt::load_tokenizer(arguments[1], exeunt::SpieceReader::tokenizers);
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(*tokenizer, line) << std::flush;
  } catch (const exeunt::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
