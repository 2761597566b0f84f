// SPDX-License-Identifier: Apache-2.0
// Of a long text only as much is normalised as its tokens need, with the same tokens as if it all were.
#include <climits>
#include <filesystem>
#include <random>

#include "exeunt/base/files.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/normalizer.h"
#include "exeunt/text/sentencepiece.h"
#include "exeunt/text/tokenizer.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/fixtures/repeated.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

// What normalisers, models and added tokens treat specially: marks out of order, Hangul and its parts, ligatures that
// grow, emoji that are one cluster, white space of all kinds, control characters, quotes, digits with commas.
const std::vector<std::string> kTextParts = {"a great film ",
                                             "dull",
                                             "Plot",
                                             " ",
                                             "   ",
                                             "\n\t",
                                             "\r\n",
                                             "'s 're ",
                                             "``quoted''",
                                             "1,234,5",
                                             "é",
                                             "e\u0301\u0323",
                                             "\u0323\u0301",
                                             "\u0301",
                                             "각한글",
                                             "\u1100\u1161\u11A8",
                                             "\u1161",
                                             "ﷺ",
                                             "ﷺﷺﷺ",
                                             "漢字",
                                             "ｶﾞ",
                                             "ﬁﬂ",
                                             "İ",
                                             "Å",
                                             "👩‍👩‍👧",
                                             "🇩🇪",
                                             "\u0600\u0661",
                                             "क्षि",
                                             "\u00A0",
                                             "\u2003",
                                             "\u200B",
                                             "\x01",
                                             "▁",
                                             "[SEP]",
                                             "[MASK]",
                                             "<mask>",
                                             " <mask> ",
                                             "<unk>",
                                             "…",
                                             "--",
                                             "!?",
                                             "\xFF",
                                             "\xE4\xBD"};

std::string random_text(std::mt19937& random, size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    const std::string& part = kTextParts[random() % kTextParts.size()];
    const size_t times = random() % 50 == 0 ? 200 : 1 + random() % 3;  // also long runs of one kind
    for (size_t i = 0; i < times; ++i) text += part;
    if (random() % 2 == 0) text += ' ';
  }
  return text;
}

class LongTexts : public testing::TestWithParam<fs::path> {};

TEST_P(LongTexts, HaveSameTokensAsIfAllWereNormalized) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>{}(GetParam().filename())));
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  tokenizers.push_back(load_tokenizer(GetParam(), SpieceReader::tokenizers));
  if (has_bare_spiece(GetParam())) tokenizers.push_back(load_tokenizer(GetParam(), SpieceReader::spiece));
  for (int round = 0; round < 2; ++round) {
    const std::string text = random_text(random, 120000);
    for (const auto& tokenizer : tokenizers) {
      const Encoding whole = tokenizer->encode(text, std::nullopt, {.max_length = INT_MAX, .special_tokens = false});
      for (const int length : {1, 8, 128}) {
        const auto kept = std::min(static_cast<ptrdiff_t>(whole.ids.size()), ptrdiff_t{length});
        EncodeOptions options{.max_length = length, .special_tokens = false};
        const Encoding first = tokenizer->encode(text, std::nullopt, options);
        EXPECT_EQ(first.ids, std::vector(whole.ids.begin(), whole.ids.begin() + kept));
        EXPECT_EQ(first.offsets, std::vector(whole.offsets.begin(), whole.offsets.begin() + kept));
        EXPECT_EQ(first.truncated, kept < std::ssize(whole.ids));
        options.keep_end = true;
        const Encoding last = tokenizer->encode(text, std::nullopt, options);
        EXPECT_EQ(last.ids, std::vector(whole.ids.end() - kept, whole.ids.end()));
        // Its bytes without a token shift the offsets of all behind them in a word, and the text is one word.
        if (GetParam().filename() != "bpe_dropped")
          EXPECT_EQ(last.offsets, std::vector(whole.offsets.end() - kept, whole.offsets.end()));
        EXPECT_EQ(last.truncated, kept < std::ssize(whole.ids));
      }
    }
  }
}

std::vector<fs::path> tokenizer_folders() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(EXEUNT_TEST_DATA) / "text/cases")) found.push_back(entry);
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Text, LongTexts, testing::ValuesIn(tokenizer_folders()),
                         [](const auto& test) { return test.param.filename().string(); });

std::vector<std::pair<std::string, Normalizer>> normalizers() {
  const auto spiece = fs::path(EXEUNT_TEST_DATA) / "text/cases/unigram/spiece.model";
  const SpieceModel model = parse_spiece_model(MappedFile::open(spiece)->bytes(), "spiece.model");
  const auto charsmap = std::make_shared<const Charsmap>(model.charsmap, "charsmap");
  const Replace quotes{"``", "\"", false}, runs{" ", " ", true};
  return {{"none", {}},
          {"uncased", {BertCleanup{}}},
          {"cased", {BertCleanup{true, true, false, false}}},
          {"nfc", {NormalForm::nfc}},
          {"nfd", {NormalForm::nfd, StripAccents{}, Lowercase{}}},
          {"nfkc", {NormalForm::nfkc, Prepend{"▁"}, Strip{}}},
          {"nfkd", {JoinWords{}, quotes, NormalForm::nfkd, StripCombining{}, Lowercase{}}},
          {"charsmap", {charsmap, runs, Strip{}}},
          {"blanks", {Strip{}, ReplaceBlanks{" "}, Prepend{"x"}}},
          {"letters", {Replace{"aa", "b", false}, Replace{"ﷺ", " ", false}, runs}}};
}

TEST(NormalizeLong, GivesTextAndOriginsOfTheWhole) {
  std::mt19937 random(1);
  for (const auto& [name, steps] : normalizers()) {
    SCOPED_TRACE(name);
    int cuts = 0;
    for (int round = 0; round < 3; ++round) {
      const std::string text = replace_invalid_utf8(random_text(random, 120000));
      NormalizedText whole(text, 5);
      normalize(steps, whole);
      const NormalizedText pieces = normalize_long(steps, text, 5);
      ASSERT_EQ(pieces.text(), whole.text());
      for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(pieces.origin(i), whole.origin(i)) << i;
      for (size_t at = 1000; at < text.size(); at += 5000) cuts += find_cut(steps, text, at) > 0 ? 1 : 0;
    }
    EXPECT_EQ(cuts > 0, name != "letters");
  }
}

// A pattern in a run of letters matches by where the run begins.
TEST(NormalizeLong, DoesNotCutWherePatternsOfLettersMatch) {
  EXPECT_EQ(find_cut({Replace{"aa", "b", false}}, std::string(1000, 'a'), 500), 0U);
  EXPECT_EQ(find_cut({Replace{"``", "b", false}}, std::string(1000, 'a'), 500), 500U);
}

TEST(LongTextMemory, GrowsWithTokensNotWithText) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  constexpr size_t kBytes = 2000000;
  for (const char* name : {"wordpiece_uncased", "unigram", "unigram_words"}) {
    const auto tokenizer = load_tokenizer(fs::path(EXEUNT_TEST_DATA) / "text/cases" / name);
    for (const std::string part : {"ﷺ", "한글 ", "a\u0323 "}) {
      const std::string text = repeated(part, kBytes / part.size());
      for (const bool keep_end : {false, true}) {
        const long grown = peak_growth(
            [&] { (void)tokenizer->encode(text, std::nullopt, {.max_length = 128, .keep_end = keep_end}); });
        EXPECT_GE(grown, 0);
        EXPECT_LE(grown, long{64} << 10) << name << " " << part << " " << keep_end;
      }
    }
  }
}

}  // namespace
}  // namespace exeunt
