// SPDX-License-Identifier: Apache-2.0
// Every code point through every part that looks at code points, held to the oracle by one digest for each part
// (scripts/unicode/make_digests.js).
#include <functional>
#include <string>

#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/normalizer.h"
#include "exeunt/text/wordpiece.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using Answer = std::function<std::string(const std::string&)>;

// The same texts as the script's: sixteen code points each, between letters and among marks.
std::string digest(const Answer& answer) {
  Sha256 hash;
  for (char32_t from = 0; from <= 0x10FFFF; from += 16) {
    if (from >= 0xD800 && from <= 0xDFFF) continue;
    std::string text;
    for (char32_t c = from; c < from + 16; ++c) {
      std::string s;
      append_utf8(s, c);
      text += "x" + s + "y a\u0323" + s + "\u0301\u0334" + s + "z ";
    }
    hash.add(answer(text) + "\n");
  }
  return hash.hex();
}

Json wanted() {
  return read_json(std::filesystem::path(EXEUNT_TEST_DATA) / "text/data/unicode_digests.json");
}

struct Part {
  std::string name;
  Normalizer steps;
};

class EveryCodePoint : public testing::TestWithParam<Part> {};

TEST_P(EveryCodePoint, NormalizesAsOracle) {
  const std::string got = digest([](const std::string& text) {
    NormalizedText normal(text, 0);
    normalize(GetParam().steps, normal);
    return std::string(normal.text());
  });
  EXPECT_EQ(got, wanted()["normalizers"][GetParam().name].get<std::string>());
}

const Part kParts[] = {{"NFC", {NormalForm::nfc}},
                       {"NFD", {NormalForm::nfd}},
                       {"NFKC", {NormalForm::nfkc}},
                       {"NFKD", {NormalForm::nfkd}},
                       {"Lowercase", {Lowercase{}}},
                       {"StripAccents", {StripAccents{}}},
                       {"BertNormalizer uncased", {BertCleanup{}}},
                       {"BertNormalizer cased", {BertCleanup{.strip_accents = false, .lowercase = false}}}};

INSTANTIATE_TEST_SUITE_P(Text, EveryCodePoint, testing::ValuesIn(kParts), [](const auto& test) {
  std::string name = test.param.name;
  name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
  return name;
});

TEST(EveryCodePoint, SplitsAsOracle) {
  const std::pair<const char*, WordSplit> splits[] = {{"BertPreTokenizer", WordSplit::bert},
                                                      {"Whitespace", WordSplit::whitespace},
                                                      {"WhitespaceSplit", WordSplit::whitespace_split}};
  for (const auto& [name, split] : splits) {
    const std::string got = digest([split = split](const std::string& text) {
      std::string out;
      for (size_t at = 0;;) {
        const WordRange word = next_word(split, text, at);
        if (word.begin == word.end) return out;
        if (!out.empty()) out += '|';
        out += text.substr(word.begin, word.end - word.begin);
        at = word.end;
      }
    });
    EXPECT_EQ(got, wanted()["splits"][name].get<std::string>()) << name;
  }
}

TEST(EveryCodePoint, TablesAndDigestsHaveSameOracleVersion) {
  EXPECT_EQ(read_json("exeunt/text/unicode_tables.json")["oracle"], wanted()["oracle"]);
}

}  // namespace
}  // namespace exeunt
