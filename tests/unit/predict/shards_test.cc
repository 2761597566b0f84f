// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/shards.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::string answer_line(int row) {
  return std::to_string(row) + "\tyes\n";
}

// Part `number` of `of` of a job with `rows` rows.
std::string part_text(Shard shard, int rows,
                      ShardInfo info = {.form = "tsv",
                                        .head = "index\tlabel\n",
                                        .weights = "w",
                                        .policy = "full",
                                        .precision = "fp32",
                                        .engine = "cpu/generic",
                                        .max_length = 128}) {
  info.shard = shard;
  std::string out = shard_first_line(info);
  for (int row = 0; row < rows; ++row) {
    if (shard.has(row)) out += answer_line(row);
  }
  return out + shard_last_line({.rows = rows, .data = "data"});
}

std::string merged(const std::vector<fs::path>& parts) {
  std::string out;
  (void)merge_shards(parts, [&](std::string_view line) { out += line; });
  return out;
}

TEST(Shards, TextFormsAreReadOrRefused) {
  EXPECT_EQ(parse_shard("2/8").number, 2);
  EXPECT_EQ(parse_shard("2/8").of, 8);
  for (const char* text : {"", "1", "0/2", "3/2", "1/0", "-1/2", "a/2", "1/2x", "1/", "/2"}) {
    EXPECT_EQ(error_of([&] { (void)parse_shard(text); }).code(), Code::usage) << text;
  }
}

TEST(Shards, PartsInAnyOrderGiveTheFileOfOneMachine) {
  const Scratch scratch;
  for (const int rows : {0, 1, 2, 3, 7, 9}) {
    std::string wanted = "index\tlabel\n";
    for (int row = 0; row < rows; ++row) wanted += answer_line(row);
    const fs::path one = scratch.write("1", part_text({1, 3}, rows)), two = scratch.write("2", part_text({2, 3}, rows)),
                   three = scratch.write("3", part_text({3, 3}, rows));
    EXPECT_EQ(merged({three, one, two}), wanted) << rows;
  }
}

TEST(Shards, MissingDuplicateAndForeignPartsAreNamed) {
  const Scratch scratch;
  const fs::path one = scratch.write("one", part_text({1, 3}, 7)), two = scratch.write("two", part_text({2, 3}, 7)),
                 again = scratch.write("again", part_text({2, 3}, 7));
  const auto refused = [](const std::vector<fs::path>& parts) {
    const Error error = error_of([&] { (void)merged(parts); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what());
  };
  EXPECT_THAT(refused({two}), HasSubstr("got 1 of 3 parts; missing: 1, 3"));
  EXPECT_THAT(refused({one, two, again}),
              testing::AllOf(HasSubstr("again: duplicate part 2/3, first from"), HasSubstr("two")));
  EXPECT_THAT(refused({scratch.write("foreign", "index\tlabel\n0\tyes\n")}),
              HasSubstr("foreign: got no part of a job"));
  EXPECT_THAT(refused({scratch.write("empty", "")}), HasSubstr("got no part of a job"));
  EXPECT_THAT(refused({scratch.path() / "absent"}), HasSubstr("absent: no such file"));
  EXPECT_EQ(error_of([] { (void)merged({}); }).code(), Code::usage);
}

TEST(Shards, PartsThatAreNotWholeAreNamed) {
  const Scratch scratch;
  const std::string whole = part_text({1, 2}, 7);
  const auto refused = [&](const std::string& text) {
    const fs::path part = scratch.write("part", text);
    return std::string(error_of([&] { (void)merged({part}); }).what());
  };
  const std::string without_end = whole.substr(0, whole.rfind("{\"format\""));
  EXPECT_THAT(refused(without_end), HasSubstr("part: the part is truncated after 4 answers"));
  EXPECT_THAT(refused(whole.substr(0, whole.find('\n') + 1)), HasSubstr("truncated after 0 answers"));
  std::string fewer = whole;
  fewer.erase(fewer.find(answer_line(2)), answer_line(2).size());
  EXPECT_THAT(refused(fewer), HasSubstr("got 3 answers, want 4 of 7 rows"));
  std::string newer = whole;
  newer.replace(newer.find("shard/1"), 7, "shard/2");
  EXPECT_THAT(refused(newer), HasSubstr("exeunt.shard/1"));
}

TEST(Shards, PartsOfDifferentJobsAreNamed) {
  const Scratch scratch;
  const ShardInfo same{.form = "tsv",
                       .head = "h\n",
                       .weights = "w",
                       .policy = "full",
                       .precision = "fp32",
                       .engine = "e",
                       .max_length = 9};
  const fs::path one = scratch.write("one", part_text({1, 2}, 6, same));
  const auto refused = [&](ShardInfo other, int rows = 6) {
    const fs::path two = scratch.write("two", part_text({2, 2}, rows, std::move(other)));
    return std::string(error_of([&] { (void)merged({one, two}); }).what());
  };
  ShardInfo other = same;
  other.policy = "entropy:0.1";
  EXPECT_THAT(refused(other), HasSubstr("two: policy differs from"));
  other = same;
  other.weights = "v";
  EXPECT_THAT(refused(other), HasSubstr("model differs"));
  other = same;
  other.precision = "int8";
  EXPECT_THAT(refused(other), HasSubstr("precision differs"));
  other = same;
  other.form = "jsonl";
  EXPECT_THAT(refused(other), HasSubstr("form differs"));
  other = same;
  other.max_length = 8;
  EXPECT_THAT(refused(other), HasSubstr("max_length differs"));
  EXPECT_THAT(refused(same, 5), HasSubstr("number of rows differs"));
}

// A part that has the answers to these rows alone.
std::string filtered_part(Shard shard, const std::vector<int>& kept, const std::string& form = "tsv", int rows = 9) {
  std::string out =
      shard_first_line({.shard = shard, .form = form, .head = "h\n", .max_length = 9, .keep_if = "label=yes"});
  for (const int row : kept)
    out += form == "jsonl" ? fmt::format("{{\"index\":{},\"label\":\"yes\"}}\n", row) : answer_line(row);
  return out + shard_last_line({.rows = rows, .data = "data", .kept = static_cast<int64_t>(kept.size())});
}

TEST(Shards, PartsOfSomeAnswersAreJoinedByRow) {
  const Scratch scratch;
  const fs::path one = scratch.write("one", filtered_part({1, 3}, {0, 6})),
                 two = scratch.write("two", filtered_part({2, 3}, {1, 4, 7})),
                 three = scratch.write("three", filtered_part({3, 3}, {}));
  EXPECT_EQ(merged({two, three, one}), "h\n0\tyes\n1\tyes\n4\tyes\n6\tyes\n7\tyes\n");
  const fs::path objects = scratch.write("objects", filtered_part({1, 1}, {3, 8}, "jsonl"));
  EXPECT_EQ(merged({objects}), "h\n{\"index\":3,\"label\":\"yes\"}\n{\"index\":8,\"label\":\"yes\"}\n");
}

TEST(Shards, PartsOfSomeAnswersThatAreNotWholeAreNamed) {
  const Scratch scratch;
  const auto refused = [&](const std::string& text) {
    const fs::path part = scratch.write("part", text);
    return std::string(error_of([&] { (void)merged({part}); }).what());
  };
  std::string fewer = filtered_part({1, 1}, {1, 4, 7});
  fewer.erase(fewer.find(answer_line(4)), answer_line(4).size());
  EXPECT_THAT(refused(fewer), HasSubstr("got 2 answers, want 3"));
  EXPECT_THAT(refused(filtered_part({1, 1}, {4, 1})), HasSubstr("not in order"));
  EXPECT_THAT(refused(filtered_part({1, 1}, {1, 9})), HasSubstr("not in order"));
  EXPECT_THAT(refused(filtered_part({2, 2}, {2})), HasSubstr("not in order"));
  const fs::path one = scratch.write("one", filtered_part({1, 2}, {2})),
                 all = scratch.write("all", part_text({2, 2}, 9, {.form = "tsv", .head = "h\n", .max_length = 9}));
  EXPECT_THAT(error_of([&] { (void)merged({one, all}); }).what(), HasSubstr("--keep-if differs from"));
}

TEST(Shards, AcceptsCsvAnswerOfSeveralLines) {
  const Scratch scratch;
  ShardInfo info{.shard = {1, 2}, .form = "csv", .head = "index,text,label\n", .max_length = 9, .keep = {"text"}};
  const std::string first = shard_first_line(info) + "0,\"a\nb, \"\"c\n\"\"\",yes\n",
                    last = shard_last_line({.rows = 2});
  info.shard = {2, 2};
  const fs::path one = scratch.write("one", first + last),
                 two = scratch.write("two", shard_first_line(info) + "1,d,no\n" + last);
  EXPECT_EQ(merged({one, two}), "index,text,label\n0,\"a\nb, \"\"c\n\"\"\",yes\n1,d,no\n");
  info.keep = {"id"};
  const fs::path other = scratch.write("two", shard_first_line(info) + "1,d,no\n" + last);
  EXPECT_THAT(error_of([&] { (void)merged({one, other}); }).what(), HasSubstr("--keep differs from"));
}

TEST(Shards, PartsOfDifferentEnginesAreJoinedWithANotice) {
  const Scratch scratch;
  ShardInfo info{.form = "tsv",
                 .head = "",
                 .weights = "w",
                 .policy = "full",
                 .precision = "fp32",
                 .engine = "cpu/avx2",
                 .max_length = 9};
  const fs::path one = scratch.write("one", part_text({1, 2}, 4, info));
  info.engine = "cpu/neon";
  const fs::path two = scratch.write("two", part_text({2, 2}, 4, info));
  const Merged out = merge_shards({one, two}, [](std::string_view) {});
  ASSERT_EQ(out.notices.size(), 1U);
  EXPECT_THAT(out.notices[0], HasSubstr("cpu/avx2 and cpu/neon"));
}

}  // namespace
}  // namespace exeunt
