// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/learned_rows.h"

#include <numeric>
#include <random>
#include <unordered_set>

#include "exeunt/base/files.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/sha256.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// A text between [CLS] and [SEP].
Ids row(Ids text) {
  text.insert(text.begin(), 101);
  text.push_back(102);
  return text;
}

LearnedRows learned(const std::vector<Ids>& rows, const RowSalt& salt = {1, 2}) {
  return LearnedRows(std::vector<LearnedRows::Row>(rows.begin(), rows.end()), 128, salt);
}

TEST(LearnedRows, RecognisesWholeTextOnce) {
  const LearnedRows rows = learned({row({7, 8, 9}), row({5}), row({7, 8, 9}), row({})});
  EXPECT_EQ(rows.size(), 3);
  EXPECT_EQ(rows.overlap(row({7, 8, 9})), Overlap::equal);
  EXPECT_EQ(rows.overlap(row({5})), Overlap::equal);
  EXPECT_EQ(rows.overlap(row({})), Overlap::equal);
  EXPECT_EQ(rows.overlap(row({7, 9, 8})), Overlap::none);
  EXPECT_EQ(rows.overlap(row({7, 8})), Overlap::none) << "fewer than four tokens: part of too many texts to tell";
}

TEST(LearnedRows, RecognisesContainedAndContainingTexts) {
  const LearnedRows rows = learned({row({1, 2, 3, 4, 5, 6}), row({20, 21, 22, 23})});
  EXPECT_EQ(rows.overlap(row({2, 3, 4, 5})), Overlap::partial);
  EXPECT_EQ(rows.overlap(row({9, 20, 21, 22, 23, 9})), Overlap::partial);
  EXPECT_EQ(rows.overlap(row({2, 3, 4, 9})), Overlap::none);
  EXPECT_EQ(rows.overlap(row({20, 21, 22, 9, 23})), Overlap::none);
}

TEST(LearnedRows, MatchesNaiveSearchOverRandomTexts) {
  std::mt19937 random(7);
  const auto text = [&](size_t most, int vocabulary) {
    Ids ids(1 + random() % most);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
    return ids;
  };
  const auto within = [](const Ids& part, const Ids& whole) {
    return std::search(whole.begin(), whole.end(), part.begin(), part.end()) != whole.end();
  };
  std::vector<Ids> texts, rows;
  for (int i = 0; i < 40; ++i) {
    texts.push_back(text(12, 4));
    rows.push_back(row(texts.back()));
  }
  const LearnedRows made = learned(rows);
  int equal = 0, partial = 0, none = 0;
  for (int i = 0; i < 3000; ++i) {
    const Ids asked = text(12, 4);
    const Overlap got = made.overlap(row(asked));
    const bool same = std::find(texts.begin(), texts.end(), asked) != texts.end();
    EXPECT_EQ(got == Overlap::equal, same);
    if (same || asked.size() < 4) {
      equal += same ? 1 : 0;
      continue;
    }
    const bool overlaps = std::any_of(texts.begin(), texts.end(), [&](const Ids& one) {
      return within(asked, one) || (one.size() >= 4 && within(one, asked));
    });
    // None is missed; a few more are seen, whose groups are those of several texts.
    EXPECT_TRUE(!overlaps || got == Overlap::partial);
    (got == Overlap::partial ? partial : none) += 1;
  }
  EXPECT_GT(equal, 100);
  EXPECT_GT(partial, 100);
  EXPECT_GT(none, 100);
}

TEST(LearnedRows, HasFewFalsePositives) {
  std::mt19937 random(3);
  std::vector<Ids> rows;
  for (int i = 0; i < 2000; ++i) {
    Ids ids(20);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 30000);
    rows.push_back(row(ids));
  }
  const LearnedRows made = learned(rows);
  int wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    Ids ids(4);  // one group alone: the filter's own rate
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 30000);
    wrong += made.overlap(row(ids)) == Overlap::none ? 0 : 1;
  }
  EXPECT_LT(wrong, 60);
}

TEST(LearnedRows, HashesDependOnTheSalt) {
  EXPECT_EQ(row_hash(row({1, 2, 3}), {4, 5}), row_hash(row({1, 2, 3}), {4, 5}));
  EXPECT_NE(row_hash(row({1, 2, 3}), {4, 5}), row_hash(row({1, 2, 3}), {4, 7}));
  EXPECT_NE(row_hash(row({1, 2, 3}), {4, 5}), row_hash(row({1, 2, 3}), {5, 5}));
  EXPECT_NE(draw_salt(), draw_salt());
}

TEST(LearnedRows, SurviveWritingAndReading) {
  const Scratch scratch;
  const LearnedRows made = learned({row({1, 2, 3, 4, 5}), row({6})}, draw_salt());
  made.write(scratch.path() / kLearnedFile);
  const LearnedRows back = LearnedRows::read(scratch.path() / kLearnedFile);
  EXPECT_EQ(back.size(), 2);
  EXPECT_EQ(back.overlap(row({1, 2, 3, 4, 5})), Overlap::equal);
  EXPECT_EQ(back.overlap(row({2, 3, 4, 5})), Overlap::partial);
  EXPECT_EQ(back.overlap(row({5, 4, 3, 2})), Overlap::none);
  EXPECT_EQ(back.max_lengths(), std::vector<int64_t>{128});
}

// Models carry these files: texts must be known again by later versions.
TEST(LearnedRows, FileStaysTheSame) {
  const Scratch scratch;
  LearnedRows rows = learned({row({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}), row({5}), row({20, 21, 22, 23})});
  rows.add(std::vector<LearnedRows::Row>{}, 64);
  rows.write(scratch.path() / "x");
  EXPECT_EQ(sha256_file(scratch.path() / "x"), "109a4cbc9bd504c5f1e4e49dbed6091bf0d13126157a445ed409c12b5409e501");
  EXPECT_EQ(row_hash(row({7, 8, 9}), {1, 2}), 11858776871399569102U) << "computed apart in Python";
}

TEST(LearnedRows, AreAddedToThoseOfTheBaseModel) {
  const Scratch scratch;
  std::vector<Ids> first, second;
  std::mt19937 random(5);
  const auto text = [&] {
    Ids ids(8);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 30000);
    return row(ids);
  };
  for (int i = 0; i < 50; ++i) first.push_back(text());
  for (int i = 0; i < 3000; ++i) second.push_back(text());
  learned(first).write(scratch.path() / kLearnedFile);
  Features features;
  features.info.max_length = 64;
  for (const Ids& ids : second) {
    features.ids.insert(features.ids.end(), ids.begin(), ids.end());
    features.offsets.push_back(static_cast<int64_t>(features.ids.size()));
    features.gold.push_back(0);
  }
  const LearnedRows all = learned_rows(features, scratch.path());
  EXPECT_EQ(all.size(), 3050);
  EXPECT_EQ(all.max_lengths(), (std::vector<int64_t>{64, 128}));
  for (const std::vector<Ids>* rows : {&first, &second}) {
    for (const Ids& ids : *rows) {
      EXPECT_EQ(all.overlap(ids), Overlap::equal);
      EXPECT_EQ(all.overlap(row(Ids(ids.begin() + 2, ids.end() - 2))), Overlap::partial);
    }
  }
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong += all.overlap(text()) == Overlap::none ? 0 : 1;
  EXPECT_LT(wrong, 10);
  EXPECT_EQ(learned_rows(features, {}).max_lengths(), std::vector<int64_t>{64});
}

using Numbers = std::vector<int64_t>;

// A list as its file has it.
std::string list_of(const Numbers& rows, const Numbers& lengths, const Numbers& max_lengths) {
  const Numbers salt{1, 2}, filter{1};
  std::string out;
  stream_safetensors({{"salt", view_of(DType::i64, salt)},
                      {"rows", view_of(DType::i64, rows)},
                      {"lengths", view_of(DType::i64, lengths)},
                      {"max_lengths", view_of(DType::i64, max_lengths)},
                      {"filter", view_of(DType::i64, filter)}},
                     {}, [&](std::span<const std::byte> piece) {
                       out.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                     });
  return out;
}

LearnedRows parsed(const std::string& list) {
  return LearnedRows::parse(std::as_bytes(std::span(list)), "a list");
}

// Every text is tokenized once for each max-length, and each of its stretches looked for once for each length.
TEST(LearnedRows, RejectsTooManyOrUnsortedLengths) {
  EXPECT_EQ(parsed(list_of({1}, {4, 1 << 20}, {1, 1 << 20})).overlap(row({1, 2, 3, 4, 5})), Overlap::none);
  Numbers many(257);
  std::iota(many.begin(), many.end(), 1);
  const auto error = [](const Numbers& lengths, const Numbers& max_lengths) {
    return std::string(error_of([&] { (void)parsed(list_of({1}, lengths, max_lengths)); }).what());
  };
  EXPECT_THAT(error({4}, many), HasSubstr("'max_lengths': got 257, want at most 256"));
  for (const Numbers& bad : {Numbers{8, 8}, Numbers{9, 8}, Numbers{0}, Numbers{int64_t{1} << 31}}) {
    EXPECT_THAT(error({4}, bad), HasSubstr("'max_lengths': want rising numbers from 1 to 1048576"));
    EXPECT_THAT(error(bad, {8}), HasSubstr("'lengths': want rising numbers from 4 to 1048576"));
  }
}

TEST(LearnedRows, SkipsLengthsBeyondTheText) {
  const auto list = [](size_t count) {
    Numbers lengths(count);
    std::iota(lengths.begin(), lengths.end(), 4);
    return parsed(list_of({1}, lengths, {1}));
  };
  const Ids text = row({1, 2, 3, 4, 5});
  const auto look = [&](const LearnedRows& rows) {
    for (int i = 0; i < 200; ++i) EXPECT_EQ(rows.overlap(text), Overlap::none);
  };
  EXPECT_LT(growth_exponent(1000, list, look), 0.5);
}

// Numbers that a set of numbers would put into one bucket.
TEST(LearnedRows, CollidingHashesTakeLinearTime) {
  const auto list = [](size_t count) {
    Numbers rows(count);
    std::iota(rows.begin(), rows.end(), 0);
    std::unordered_set<int64_t> plain;
    plain.insert(rows.begin(), rows.end());
    for (int64_t& hash : rows) hash *= static_cast<int64_t>(plain.bucket_count());
    return list_of(rows, {4}, {8});
  };
  EXPECT_LT(growth_exponent(2000, list, [](const std::string& file) { (void)parsed(file); }), 1.5);
}

TEST(LearnedRows, RejectsSymlinkOutsideFolder) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "model");
  EXPECT_FALSE(learned_in(scratch.path() / "model"));
  EXPECT_FALSE(learned_in({}));
  learned({row({1, 2, 3})}).write(scratch.path() / "others");
  std::filesystem::create_symlink("../others", scratch.path() / "model" / kLearnedFile);
  EXPECT_THAT(error_of([&] { (void)learned_in(scratch.path() / "model"); }).what(),
              HasSubstr("outside the model folder"));
  std::filesystem::remove(scratch.path() / "model" / kLearnedFile);
  std::filesystem::copy(scratch.path() / "others", scratch.path() / "model" / kLearnedFile);
  EXPECT_EQ(learned_in(scratch.path() / "model")->size(), 1U);
}

TEST(LearnedRows, RejectsDamagedFile) {
  const Scratch scratch;
  const std::vector<uint64_t> three{1, 2, 3}, two{1, 2};
  const auto error_of = [&](const std::vector<NamedTensor>& tensors) {
    write_safetensors(scratch.path() / "x", tensors, {});
    try {
      (void)LearnedRows::read(scratch.path() / "x");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const NamedTensor salt{"salt", view_of(DType::i64, two)}, rows{"rows", view_of(DType::i64, three)},
      lengths{"lengths", view_of(DType::i64, three)}, filter{"filter", view_of(DType::i64, three)};
  EXPECT_THAT(error_of({rows, lengths, filter}), HasSubstr("lacks the tensor 'salt'"));
  EXPECT_THAT(error_of({salt, rows, lengths, filter}), HasSubstr("'lengths'"));
  const std::vector<uint64_t> none;
  const NamedTensor empty{"lengths", view_of(DType::i64, none)};
  EXPECT_THAT(error_of({salt, rows, empty, filter}), HasSubstr("lacks the tensor 'max_lengths'"));
  EXPECT_THAT(error_of({salt, rows, empty, {"max_lengths", view_of(DType::i64, none)}, filter}),
              HasSubstr("power of two"));
  EXPECT_THAT(error_of({{"salt", view_of(DType::i64, three)}, rows, lengths, filter}), HasSubstr("'salt'"));
}

}  // namespace
}  // namespace exeunt
