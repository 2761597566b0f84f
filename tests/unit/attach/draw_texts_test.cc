// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/draw_texts.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/certify/silent.h"

namespace exeunt {
namespace {

class DrawTextsTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    const auto path = scratch_.path() / name;
    write_atomically(path, content);
    return path.string();
  }

  // `count` distinct texts of the test vocabulary.
  static std::string lines(int count) {
    const std::vector<std::string> words{"good", "film", "plot", "story", "book", "song", "meal", "food"};
    std::string out;
    for (int i = 0; i < count; ++i) {
      for (int rest = i + 8; rest > 0; rest /= 8) out += words[static_cast<size_t>(rest % 8)] + " ";
      out += "\n";
    }
    return out;
  }

  static std::set<std::string> texts_of(const DrawnTexts& drawn) {
    std::set<std::string> out;
    for (const Example& text : drawn.texts) out.insert(text.text);
    return out;
  }

  Scratch scratch_;
  const std::unique_ptr<const Tokenizer> tokenizer_ = load_tokenizer(EXEUNT_TEST_DATA "/checkpoints/bert-backbone");
};

TEST_F(DrawTextsTest, CountsEqualTokensOnce) {
  const DrawnTexts drawn = draw_texts({.files = {file("a.txt", "good film\nGood  film\nthe plot\n\n   \n")}}, nullptr,
                                      *tokenizer_, silent());
  EXPECT_EQ(drawn.rows, 5);
  EXPECT_EQ(drawn.blank, 2);
  EXPECT_EQ(drawn.distinct, 2);
  EXPECT_EQ(drawn.texts.size(), 2U);
  EXPECT_TRUE(std::isnan(drawn.texts[0].gold));
}

TEST_F(DrawTextsTest, DrawsTheSameFromAnyOrderAndAnyNumberOfCopies) {
  const std::string all = lines(300);
  std::string reversed;
  for (size_t end = all.size(); end > 0;) {
    const size_t begin = all.rfind('\n', end - 2) + 1;
    reversed += all.substr(begin, end - begin);
    end = begin;
  }
  const std::string forth = file("forth.txt", all), back = file("back.txt", reversed);
  const DrawnTexts one = draw_texts({.files = {forth}, .limit = 50}, nullptr, *tokenizer_, silent());
  const DrawnTexts other =
      draw_texts({.files = {back, forth}, .limit = 50, .threads = 3}, nullptr, *tokenizer_, silent());
  EXPECT_EQ(one.texts.size(), 50U);
  EXPECT_EQ(texts_of(one), texts_of(other));
  const DrawnTexts third = draw_texts({.files = {forth}, .limit = 50, .seed = 7}, nullptr, *tokenizer_, silent());
  EXPECT_NE(texts_of(one), texts_of(third));
}

// The same texts on every machine, in the same order.
TEST_F(DrawTextsTest, DrawIsFixedBySeed) {
  const std::string one = file("one.txt", lines(20)), two = file("two.txt", "\ngood good good\n");
  const DrawnTexts drawn = draw_texts({.files = {one, two}, .limit = 4}, nullptr, *tokenizer_, silent());
  std::vector<std::string> texts;
  for (const Example& text : drawn.texts) texts.push_back(text.text);
  EXPECT_THAT(texts, testing::ElementsAre("song plot ", "plot plot ", "song film ", "story story "));
  EXPECT_EQ(drawn.rows, 22);
  EXPECT_EQ(drawn.blank, 1);
  EXPECT_FALSE(drawn.crowded);
  EXPECT_EQ(drawn.sha256, sha256_hex(sha256_hex(read_text(one)) + sha256_hex(read_text(two))));
  for (const Encoding& tokens : drawn.tokens) EXPECT_TRUE(tokens.offsets.empty());
}

// Texts that are tokenized in several blocks are counted and drawn as those of one.
TEST_F(DrawTextsTest, CountsTextsOfSeveralBlocks) {
  const DrawnTexts drawn =
      draw_texts({.files = {file("a.txt", lines(9000) + lines(9000))}, .max_length = 5, .threads = 1}, nullptr,
                 *tokenizer_, silent());
  EXPECT_EQ(drawn.rows, 18000);
  EXPECT_EQ(drawn.truncated, 2 * (9000 - 504)) << "of more than three words, from 8 * 8 * 8 - 8 on";
}

TEST_F(DrawTextsTest, EstimatesHowManyDistinctTextsThereAre) {
  const DrawnTexts drawn =
      draw_texts({.files = {file("a.txt", lines(4000))}, .limit = 1000}, nullptr, *tokenizer_, silent());
  EXPECT_EQ(drawn.texts.size(), 1000U);
  EXPECT_NEAR(static_cast<double>(drawn.distinct), 4000, 500);
}

// A log of any size: what was not drawn is not kept.
TEST_F(DrawTextsTest, TakesMemoryForWhatIsDrawnAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  constexpr size_t kTexts = 24000, kBytes = 4000;
  const std::string path = file("log.txt", "");
  for (size_t i = 0; i < kTexts; i += 1000) {
    std::string block;
    for (size_t j = i; j < i + 1000; ++j) {
      for (const char digit : std::to_string(j)) block += {digit, ' '};  // words of the vocabulary
      block += std::string(kBytes, 'x') + "\n";
    }
    append_text(path, block);
  }
  const auto grown = [&](int64_t limit, size_t memory = DrawOptions{}.memory) {
    const DrawOptions options{.files = {path}, .limit = limit, .memory = memory, .threads = 1};
    return peak_growth([&] { (void)draw_texts(options, nullptr, *tokenizer_, silent()); });
  };
  constexpr long kAll = (kTexts * kBytes) >> 10;
  EXPECT_LT(grown(100), kAll / 2);
  EXPECT_GT(grown(int64_t{kTexts}), kAll) << "or there is nothing to see";
  EXPECT_LT(grown(int64_t{kTexts}, size_t{8} << 20), kAll / 2);
}

// Whatever --max-texts says. Which texts are drawn depends on no order even where some take more than others.
TEST_F(DrawTextsTest, DrawsNoMoreThanItsMemoryHolds) {
  std::string forth, back;
  size_t all = 0;
  for (size_t i = 0; i < 200; ++i) {
    std::string text;
    for (const char digit : std::to_string(1000 + i)) text += {digit, ' '};
    text += std::string(1 + i * 37 % 2000, 'x') + "\n";
    all += text.size();
    forth += text;
    back.insert(0, text);
  }
  const auto drawn = [&](const std::string& name, size_t memory) {
    return draw_texts({.files = {(scratch_.path() / name).string()}, .memory = memory}, nullptr, *tokenizer_, silent());
  };
  file("forth.txt", forth);
  file("back.txt", back);
  const DrawnTexts roomy = drawn("forth.txt", size_t{16} << 20), tight = drawn("forth.txt", all / 2),
                   other = drawn("back.txt", all / 2);
  EXPECT_EQ(roomy.texts.size(), 200U);
  EXPECT_FALSE(roomy.crowded);
  EXPECT_GT(roomy.bytes, all);
  EXPECT_TRUE(tight.crowded);
  EXPECT_LE(tight.bytes, all / 2);
  EXPECT_GT(tight.bytes, all / 2 - 4000);
  EXPECT_EQ(texts_of(tight), texts_of(other));
  EXPECT_NEAR(static_cast<double>(tight.distinct), 200, 80);
  EXPECT_THROW((void)drawn("forth.txt", 100), Error);
}

TEST_F(DrawTextsTest, CountsTruncatedTexts) {
  const DrawnTexts drawn = draw_texts({.files = {file("a.txt", "good\ngood film good film good\n")}, .max_length = 5},
                                      nullptr, *tokenizer_, silent());
  EXPECT_EQ(drawn.truncated, 1);
}

TEST_F(DrawTextsTest, TakesLabelsWhereThereAreAny) {
  Dataset labelled;
  labelled.examples = {{.text = "good film", .pair = {}, .gold = 1, .index = 0}};
  const DrawnTexts drawn = draw_texts({.files = {file("a.txt", "good film\n")}}, &labelled, *tokenizer_, silent());
  ASSERT_EQ(drawn.texts.size(), 1U);
  EXPECT_EQ(drawn.texts[0].gold, 1);

  labelled.problem = Problem::multi_label;
  labelled.examples = {{.text = "good film", .pair = {}, .gold = 0, .given = {0, 2}, .index = 0}};
  const DrawnTexts several = draw_texts({.files = {file("a.txt", "good film\n")}}, &labelled, *tokenizer_, silent());
  ASSERT_EQ(several.texts.size(), 1U);
  EXPECT_EQ(several.texts[0].given, (std::vector<int>{0, 2}));
}

TEST_F(DrawTextsTest, RefusesFilesWithoutAText) {
  EXPECT_THROW((void)draw_texts({.files = {file("a.txt", "\n \n")}}, nullptr, *tokenizer_, silent()), Error);
  EXPECT_THROW((void)draw_texts({.files = {file("b.txt", "")}}, nullptr, *tokenizer_, silent()), Error);
}

}  // namespace
}  // namespace exeunt
