// SPDX-License-Identifier: Apache-2.0
// Expected texts and offsets were read off the oracle.
#include "exeunt/text/normalizer.h"

#include "exeunt/base/utf8.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NormalizedText apply(const char* json, std::string_view text, uint32_t first = 0) {
  NormalizedText out(text, first);
  normalize(parse_normalizer(parse_json(json, "f"), "f"), out);
  return out;
}

std::string text_of(const char* json, std::string_view text) {
  return std::string(apply(json, text).text());
}

// Where each code point came from.
std::vector<Offset> origins(const NormalizedText& text) {
  std::vector<Offset> out;
  for (size_t at = 0; at < text.size(); at += decode_utf8(text.text().substr(at)).bytes) out.push_back(text.origin(at));
  return out;
}

constexpr const char* kUncased =
    R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})";
constexpr const char* kCased =
    R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":false})";

TEST(Normalizer, PlainTextNeedsNoOriginTable) {
  const NormalizedText text = apply(kUncased, "Hello\tWORLD!", 7);
  EXPECT_EQ(text.text(), "hello world!");
  EXPECT_TRUE(text.plain());
  EXPECT_EQ(text.origin(6, 11), Offset(13, 18));
}

TEST(Normalizer, BertDropsControlsAndAccentsAndSpacesIdeographs) {
  const NormalizedText text = apply(kUncased, std::string_view("\0A\u0301中É中", 12));
  EXPECT_EQ(text.text(), "a 中 e 中 ");
  EXPECT_THAT(origins(text), ElementsAre(Offset(1, 2), Offset(3, 4), Offset(3, 4), Offset(3, 4), Offset(4, 5),
                                         Offset(5, 6), Offset(5, 6), Offset(5, 6)));
}

TEST(Normalizer, AsciiControlsShiftWhatFollows) {
  const NormalizedText text = apply(kUncased,
                                    "A\x01\x02"
                                    "B\x7F"
                                    "C");
  EXPECT_EQ(text.text(), "abc");
  EXPECT_THAT(origins(text), ElementsAre(Offset(0, 1), Offset(3, 4), Offset(5, 6)));
}

TEST(Normalizer, CasedBertKeepsCaseAndAccents) {
  EXPECT_EQ(text_of(kCased, "Élan\u2003VITAL"), "Élan VITAL");
  EXPECT_EQ(text_of(R"({"type":"BertNormalizer","clean_text":false,"handle_chinese_chars":false,
                        "strip_accents":true,"lowercase":false})",
                    "Élan\u2003中"),
            "Elan\u2003中");
}

TEST(Normalizer, UncasedHangulIsDecomposed) {
  EXPECT_EQ(text_of(kUncased, "각"), "\u1100\u1161\u11A8");
  EXPECT_EQ(text_of(kUncased, "각É"), "\u1100\u1161\u11A8e");
}

// U+302E is a spacing mark of a lower class than U+0301: it stays, and moves.
TEST(Normalizer, KeptMarksAreOrderedBeforeAccentsGo) {
  const NormalizedText text = apply(kUncased, "A\u0301\u302EB");
  EXPECT_EQ(text.text(), "a\u302Eb");
  EXPECT_THAT(origins(text), ElementsAre(Offset(0, 1), Offset(1, 2), Offset(3, 4)));
}

TEST(Normalizer, LowercaseMayGrow) {
  const NormalizedText text = apply(R"({"type":"Lowercase"})", "İX");
  EXPECT_EQ(text.text(), "i̇x");
  EXPECT_THAT(origins(text), ElementsAre(Offset(0, 1), Offset(0, 1), Offset(1, 2)));
  EXPECT_EQ(text_of(R"({"type":"Lowercase"})", "ΟΔΟΣ"), "οδοσ");
  EXPECT_EQ(text_of(R"({"type":"Lowercase"})", "ABC\x01"), "abc\x01");
}

struct FormCase {
  const char* form;
  const char* text;
  const char* want;
  std::vector<Offset> from;
};

TEST(Normalizer, NormalFormsMatchOracle) {
  const FormCase cases[] = {
      {"NFD", "\u00E0\u0316x", "a\u0316\u0300x", {{0, 1}, {1, 2}, {1, 2}, {2, 3}}},
      {"NFD", "\u1E69x", "s\u0323\u0307x", {{0, 1}, {0, 1}, {0, 1}, {1, 2}}},
      {"NFD", "\u1E0B\u0323x", "d\u0323\u0307x", {{0, 1}, {1, 2}, {1, 2}, {2, 3}}},
      {"NFD", "\uAC01x", "\u1100\u1161\u11A8x", {{0, 1}, {0, 1}, {0, 1}, {1, 2}}},
      {"NFC", "a\u0301b", "\u00E1b", {{0, 1}, {2, 3}}},
      {"NFC", "s\u0307\u0323x", "\u1E69x", {{0, 1}, {3, 4}}},
      {"NFC", "\u1E0B\u0323x", "\u1E0D\u0307x", {{0, 1}, {1, 2}, {2, 3}}},
      {"NFC", "\u1100\u1161\u11A8x", "\uAC01x", {{0, 1}, {3, 4}}},
      {"NFC", "\uAC00\u11A8x", "\uAC01x", {{0, 1}, {2, 3}}},
      // Next to the leads, vowels and tails that make a syllable are others, which do not.
      {"NFC", "\u1113\u1161x", "\u1113\u1161x", {{0, 1}, {1, 2}, {2, 3}}},
      {"NFC", "\u1100\u1160x", "\u1100\u1160x", {{0, 1}, {1, 2}, {2, 3}}},
      {"NFC", "\u1100\u1176x", "\u1100\u1176x", {{0, 1}, {1, 2}, {2, 3}}},
      {"NFC", "\uAC00\u11A7x", "\uAC00\u11A7x", {{0, 1}, {1, 2}, {2, 3}}},
      {"NFC", "\uAC00\u11C3x", "\uAC00\u11C3x", {{0, 1}, {1, 2}, {2, 3}}},
      {"NFC", "q\u0307\u0323x", "q\u0323\u0307x", {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
      {"NFC", "a\u030D\u0301x", "a\u030D\u0301x", {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},  // U+030D is of the acute's class
      {"NFC", "a\u0344\u0301x", "\u00E4\u0301\u0301x", {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
      {"NFC", "\u0344x", "\u0308\u0301x", {{0, 1}, {0, 1}, {1, 2}}},
      {"NFKC", "\u2460\u0301\uFB01\u0301x", "1\u0301f\u00EDx", {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}},
      {"NFKD", "\uFB01x", "fix", {{0, 1}, {0, 1}, {1, 2}}},
  };
  for (const FormCase& c : cases) {
    const NormalizedText text = apply((std::string(R"({"type":")") + c.form + "\"}").c_str(), c.text);
    EXPECT_EQ(text.text(), c.want) << c.form;
    EXPECT_EQ(origins(text), c.from) << c.form << ' ' << c.want;
  }
}

TEST(Normalizer, ReplacementTakesOriginOfLastCodePoint) {
  const NormalizedText text = apply(R"({"type":"Replace","pattern":{"String":"ab"},"content":"xyz"})", "cabdab");
  EXPECT_EQ(text.text(), "cxyzdxyz");
  EXPECT_THAT(origins(text), ElementsAre(Offset(0, 1), Offset(2, 3), Offset(2, 3), Offset(2, 3), Offset(3, 4),
                                         Offset(5, 6), Offset(5, 6), Offset(5, 6)));
  EXPECT_EQ(text_of(R"({"type":"Replace","pattern":{"String":"``"},"content":"\""})", "a``b```c"), "a\"b\"`c");
  EXPECT_EQ(text_of(R"({"type":"Replace","pattern":{"String":"ab"},"content":""})", "abab"), "");
}

TEST(Normalizer, RunsOfBlanksBecomeOne) {
  const NormalizedText text = apply(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})", "a  b    c d");
  EXPECT_EQ(text.text(), "a b c d");
  EXPECT_THAT(origins(text), ElementsAre(Offset(0, 1), Offset(2, 3), Offset(3, 4), Offset(7, 8), Offset(8, 9),
                                         Offset(9, 10), Offset(10, 11)));
  EXPECT_TRUE(apply(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})", "a b c").plain());
}

TEST(Normalizer, StripAndPrependWorkAtTheEnds) {
  const NormalizedText text = apply(R"({"type":"Strip","strip_left":true,"strip_right":true})", "  a b \u3000");
  EXPECT_EQ(text.text(), "a b");
  EXPECT_EQ(text.origin(0), Offset(2, 3));
  EXPECT_EQ(text_of(R"({"type":"Strip","strip_left":false,"strip_right":true})", "  "), "");
  EXPECT_EQ(text_of(R"({"type":"Strip","strip_left":false,"strip_right":true})", " é "), " é");
  const NormalizedText put = apply(R"({"type":"Prepend","prepend":"▁x"})", "ab");
  EXPECT_EQ(put.text(), "▁xab");
  EXPECT_THAT(origins(put), ElementsAre(Offset(0, 1), Offset(0, 1), Offset(0, 1), Offset(1, 2)));
  EXPECT_EQ(text_of(R"({"type":"Prepend","prepend":"▁"})", ""), "");
}

TEST(Normalizer, SequenceRunsInOrder) {
  const NormalizedText text =
      apply(R"({"type":"Sequence","normalizers":[{"type":"NFKD"},{"type":"StripAccents"},{"type":"Lowercase"}]})",
            "ﬁÀ\u0316Ḍ\u0307X");
  EXPECT_EQ(text.text(), "fiadx");
  EXPECT_THAT(origins(text), ElementsAre(Offset(0, 1), Offset(0, 1), Offset(1, 2), Offset(3, 4), Offset(5, 6)));
}

// Two dozen doublings of one letter would take 16 MB, and a table of 128.
TEST(Normalizer, BoundsGrowthOfText) {
  const std::string doubling = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  const auto steps = [&](int count) {
    std::string text = doubling;
    for (int i = 1; i < count; ++i) text += "," + doubling;
    return R"({"type":"Sequence","normalizers":[)" + text + "]}";
  };
  const auto normalized = [](const std::string& json, std::string_view text) {
    NormalizedText out(text, 0);
    normalize(parse_normalizer(parse_json(json, "f"), "f"), out);
    return out.size();
  };
  EXPECT_EQ(normalized(steps(5), "a"), 32U);
  EXPECT_EQ(normalized(steps(5), std::string(1000, 'a')), 32'000U);
  EXPECT_THAT(error_of([&] { (void)normalized(steps(24), "a"); }).what(), HasSubstr("more than 32 times longer"));
  EXPECT_THROW((void)normalized(steps(6), std::string(1000, 'a')), Error);
  const std::string long_text(10'000, 'x');
  EXPECT_THROW((void)normalized(R"({"type":"Prepend","prepend":")" + long_text + "\"}", "a"), Error);
  EXPECT_THROW((void)normalized(R"({"type":"Replace","pattern":{"String":"a"},"content":")" + long_text + "\"}", "a"),
               Error);
  EXPECT_THAT(error_of([&] {
                (void)parse_normalizer(
                    parse_json(R"({"type":"Replace","pattern":{"String":")" + long_text + R"("},"content":""})", "f"),
                    "f");
              }).what(),
              HasSubstr("got 10000 bytes, want a non-empty text of at most 256"));
}

TEST(Normalizer, NamesUnknownKindsAndPatterns) {
  const auto message = [](const char* text) {
    return std::string(error_of([&] { (void)parse_normalizer(parse_json(text, "f"), "f"); }).what());
  };
  EXPECT_THAT(message(R"({"type":"Nmt"})"), HasSubstr("field 'type': got 'Nmt', want one of BertNormalizer"));
  EXPECT_THAT(message(R"({"type":"Replace","pattern":{"Regex":"a+"},"content":""})"), HasSubstr("got 'a+'"));
  EXPECT_THAT(message(R"({"type":"Replace","pattern":{"String":""},"content":""})"), HasSubstr("non-empty"));
  EXPECT_THAT(message(R"({"type":"Sequence","normalizers":{}})"), HasSubstr("want a list"));
  EXPECT_THAT(message(R"({"type":"Sequence","normalizers":[{"type":"NFD"},3]})"), HasSubstr("normalizers[1]: got 3"));
  EXPECT_THAT(message(R"({"type":"BertNormalizer","lower_case":true})"), HasSubstr("unknown field 'lower_case'"));
  EXPECT_THAT(message(R"({"type":"BertNormalizer","lowercase":1})"), HasSubstr("want true or false"));
}

// DeBERTa's pattern, as transformers 5 writes it.
TEST(Normalizer, JoinsBlanksAndTurnsSingleBreaksIntoSpaces) {
  constexpr const char* kBlanks = R"({"type":"Replace","pattern":{"Regex":"\\s{2,}|[\\n\\r\\t]"},"content":" "})";
  EXPECT_EQ(text_of(kBlanks, "a  b \t c\nd\u00a0e\u00a0\u2003f "), "a b c d\u00a0e f ");
  EXPECT_EQ(text_of(kBlanks, "plain text"), "plain text");
  EXPECT_EQ(text_of(kBlanks, "\r\n"), " ");
  EXPECT_THAT(origins(apply(kBlanks, "a \n b", 5)), ElementsAre(Offset(5, 6), Offset(8, 9), Offset(9, 10)));
  const Error error =
      error_of([] { (void)text_of(R"({"type":"Replace","pattern":{"Regex":"x+"},"content":" "})", "x"); });
  EXPECT_THAT(error.what(), HasSubstr("got 'x+', want ' {2,}' or"));
}

}  // namespace
}  // namespace exeunt
