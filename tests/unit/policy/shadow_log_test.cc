// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/shadow_log.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/files.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

ShadowLogHead head_example() {
  ShadowLogHead head;
  head.weights = std::string(64, 'a');
  head.tokenizer = std::string(64, 'b');
  head.engine = "cpu/neon";
  head.precision = "int8";
  head.precision_map = std::string(64, 'c');
  head.numerics = 1;
  head.max_length = 48;
  head.labels = {"bad", "good"};
  head.outputs = 2;
  head.layers = {1, 3};
  return head;
}

ShadowLogRow row_example(uint64_t hash) {
  return {.time = "2026-03-01T12:34:56Z",
          .row_hash = hash_text(hash),
          .tokens = 7,
          .logits = {0.1F, -2, 3e-8F, 1.0F / 3},
          .reference = {1, -1.5F}};
}

std::string log_text(const std::filesystem::path& path) {
  return read_text(path, 1 << 20);
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(ShadowLog, IsReadAsTheTraceThatWasWritten) {
  const Scratch scratch;
  const auto path = scratch.path() / "log.jsonl";
  {
    ShadowLogWriter log(path, head_example());
    EXPECT_TRUE(log.write(row_example(0xfedcba9876543210)));
    ShadowLogRow second = row_example(5);
    second.dropped = 3;
    second.time = "2026-03-02T00:00:00Z";
    EXPECT_TRUE(log.write(second));
  }
  const ShadowLog log = read_shadow_log(path);
  const ExitTrace& trace = log.trace;
  ASSERT_EQ(trace.rows, 2U);
  EXPECT_EQ(trace.exits, 2);
  EXPECT_EQ(trace.width, 2);
  EXPECT_EQ(trace.row_hash, (std::vector<uint64_t>{0xfedcba9876543210, 5}));
  EXPECT_EQ(trace.lengths, (std::vector<int32_t>{7, 7}));
  EXPECT_EQ(std::vector(trace.logits.begin(), trace.logits.begin() + 4), row_example(0).logits);  // bit for bit
  EXPECT_EQ(std::vector(trace.reference.begin(), trace.reference.begin() + 2), row_example(0).reference);
  EXPECT_TRUE(std::isnan(trace.gold[0]));
  EXPECT_FALSE(trace.labelled());
  EXPECT_EQ(trace.info.precision, "int8");
  EXPECT_EQ(trace.info.precision_map, std::string(64, 'c'));
  EXPECT_EQ(trace.info.layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(trace.info.max_length, 48);
  EXPECT_EQ(log.dropped, (std::vector<uint64_t>{0, 3}));
  EXPECT_EQ(log.times, (std::vector<std::string>{"2026-03-01T12:34:56Z", "2026-03-02T00:00:00Z"}));
}

TEST(ShadowLog, HoldsScoresRampAndMeaningOfTheOutputs) {
  const Scratch scratch;
  const auto path = scratch.path() / "log.jsonl";
  for (const Problem problem : {Problem::classification, Problem::multi_label}) {
    std::filesystem::remove(path);
    ShadowLogHead head = head_example();
    head.problem = problem;
    ShadowLogRow row = row_example(5);
    row.lte = {0.25F, 0.5F};
    row.ramp = {1, 2};
    {
      ShadowLogWriter log(path, head);
      EXPECT_TRUE(log.write(row));
      EXPECT_TRUE(log.write(row));
    }
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600)) << "texts of users";
    const ExitTrace trace = read_shadow_log(path).trace;
    EXPECT_EQ(trace.info.problem, problem);
    EXPECT_EQ(trace.lte, (std::vector<float>{0.25F, 0.5F, 0.25F, 0.5F}));
    EXPECT_EQ(trace.ramp, (std::vector<float>{1, 2, 1, 2}));
    EXPECT_EQ(trace.info.split, "server");
    EXPECT_EQ(trace.index, (std::vector<int64_t>{0, 1}));
  }
}

TEST(ShadowLog, RefusesRowsOfOtherSizes) {
  const Scratch scratch;
  const auto refused = [&](const ShadowLogRow& second) {
    const auto path = scratch.path() / "log";
    std::filesystem::remove(path);
    ShadowLogRow first = row_example(1);
    first.lte = {0.25F, 0.5F};
    first.ramp = {1, 2};
    {
      ShadowLogWriter log(path, head_example());
      EXPECT_TRUE(log.write(first));
      EXPECT_TRUE(log.write(second));
    }
    const std::string what = error_of([&] { (void)read_shadow_log(path); }).what();
    return what.substr(what.rfind("log:") + 4);
  };
  ShadowLogRow row = row_example(2);
  EXPECT_EQ(refused(row), "3: lte: got 0 numbers, want 2");
  row.lte = {0.25F, 0.5F};
  EXPECT_EQ(refused(row), "3: ramp: got 0 numbers, want 2");
  row.ramp = {1, 2};
  row.reference = {1};
  EXPECT_EQ(refused(row), "3: reference: got 1 numbers, want 2");
  row.reference = {1, 2};
  row.logits.pop_back();
  EXPECT_EQ(refused(row), "3: logits: got 3 numbers, want 4");
  row.logits.push_back(1);
  row.row_hash = std::string(80, 'a');
  EXPECT_EQ(refused(row), "3: row_hash: got '" + std::string(64, 'a') + "', want 16 hex digits");
  EXPECT_THAT(error_of([&] { (void)parse_shadow_log("", "log"); }).what(),
              HasSubstr("log: empty: want a log that 'exeunt serve --shadow-log' wrote"));
}

TEST(ShadowLog, RejectsSymlink) {
  const Scratch scratch;
  scratch.write("precious", "");
  std::filesystem::create_symlink("precious", scratch.path() / "log");
  EXPECT_THAT(error_of([&] { ShadowLogWriter(scratch.path() / "log", head_example()); }).what(),
              HasSubstr("is a link"));
  EXPECT_EQ(log_text(scratch.path() / "precious"), "");
}

// Wherever a dying server stopped writing, whole lines stay readable, and the next server goes on after them.
TEST(ShadowLog, DropsAnIncompleteLastLine) {
  const Scratch scratch;
  const auto path = scratch.path() / "log";
  {
    ShadowLogWriter log(path, head_example());
    EXPECT_TRUE(log.write(row_example(1)));
    EXPECT_TRUE(log.write(row_example(2)));
  }
  const std::string whole = log_text(path);
  const size_t first = whole.find('\n') + 1, second = whole.find('\n', first) + 1;
  for (size_t length = 0; length < whole.size(); ++length) {
    write_text(path, whole.substr(0, length));
    if (length >= second) {
      EXPECT_EQ(read_shadow_log(path).trace.rows, 1U) << length;
    } else {
      EXPECT_EQ(error_of([&] { (void)read_shadow_log(path); }).code(), Code::bad_file) << length;
    }
    {
      ShadowLogWriter log(path, head_example());
      EXPECT_TRUE(log.write(row_example(9)));
    }
    const ExitTrace trace = read_shadow_log(path).trace;
    ASSERT_EQ(trace.rows, length >= second ? 2U : 1U) << length;
    EXPECT_EQ(trace.row_hash.back(), 9U);
  }
}

TEST(ShadowLog, StaysWithinItsSizeInWholeLines) {
  const Scratch scratch;
  const auto path = scratch.path() / "log";
  ShadowLogWriter log(path, head_example(), 1000);
  int written = 0;
  while (written < 100 && log.write(row_example(1))) ++written;
  EXPECT_GT(written, 0);
  EXPECT_FALSE(log.write(row_example(1)));
  EXPECT_LE(std::filesystem::file_size(path), 1000U);
  EXPECT_EQ(read_shadow_log(path).trace.rows, static_cast<size_t>(written));
}

TEST(ShadowLog, RejectsAnotherModelOrASecondServer) {
  const Scratch scratch;
  const auto path = scratch.path() / "log";
  const ShadowLogWriter log(path, head_example());
  EXPECT_EQ(error_of([&] { ShadowLogWriter(path, head_example()); }).code(), Code::resources);
  ShadowLogHead other = head_example();
  other.precision = "bf16";
  write_text(scratch.path() / "other", log_text(path));
  EXPECT_EQ(error_of([&] { ShadowLogWriter(scratch.path() / "other", other); }).code(), Code::usage);
  write_text(scratch.path() / "diary", "Dear diary\n");
  EXPECT_EQ(error_of([&] { ShadowLogWriter(scratch.path() / "diary", other); }).code(), Code::usage);
  EXPECT_EQ(log_text(scratch.path() / "diary"), "Dear diary\n");
}

TEST(ShadowLog, RejectsEarlierVersion) {
  const Scratch scratch;
  const auto path = scratch.path() / "log";
  { ShadowLogWriter log(path, head_example()); }
  for (const char* earlier : {"shadows/1", "shadows/2"}) {
    std::string text = log_text(path);
    text.replace(text.find("shadows/"), 9, earlier);
    write_text(path, text);
    const Error error = error_of([&] { (void)read_shadow_log(path); });
    EXPECT_EQ(error.code(), Code::bad_file);
    EXPECT_THAT(error.what(), HasSubstr("without the times of its texts"));
    EXPECT_EQ(error_of([&] { ShadowLogWriter(path, head_example()); }).code(), Code::usage);
  }
}

TEST(ShadowLog, NamesTheLineThatIsWrong) {
  const Scratch scratch;
  const auto path = scratch.path() / "log";
  { ShadowLogWriter log(path, head_example()); }
  const std::string head = log_text(path);
  const auto why = [&](std::string_view row) {
    write_text(path, head + std::string(row) + "\n");
    return std::string(error_of([&] { (void)read_shadow_log(path); }).what());
  };
  EXPECT_THAT(why("{"), HasSubstr("log:2"));
  EXPECT_THAT(why(R"({"time":"2026-03-01T12:34:56Z","row_hash":"12","tokens":1,"logits":[1,2,3,4],"reference":[1,2]})"),
              HasSubstr("16 hex digits"));
  EXPECT_THAT(
      why(R"({"time":"2026-03-01T12:34:56Z","row_hash":"00000000000000ff","tokens":1,"logits":[1,2,3],"reference":[1,2]})"),
      HasSubstr("log:2: logits: got 3 numbers, want 4"));
  EXPECT_THAT(why(R"({"time":"2026-03-01T12:34:56Z","row_hash":"00000000000000ff","tokens":1,"logits":[1,2,3,4]})"),
              HasSubstr("reference"));
  EXPECT_THAT(
      why(R"({"time":"2026-03-01T12:34:56Z","row_hash":"00000000000000ff","tokens":1,"logits":[1,2,3,4],"reference":[1,2],"text":"x"})"),
      HasSubstr("unknown field 'text'"));
  EXPECT_THAT(
      why(R"({"time":"2026-03-01","row_hash":"00000000000000ff","tokens":1,"logits":[1,2,3,4],"reference":[1,2]})"),
      HasSubstr("want one like 2026-03-01T12:34:56Z"));
  write_text(path, "");
  EXPECT_EQ(error_of([&] { (void)read_shadow_log(path); }).code(), Code::bad_file);
}

TEST(ShadowLog, KnowsTimesAndDates) {
  for (const char* good : {"2026-03-01", "2026-03-01T12:34:56Z"}) EXPECT_TRUE(is_time(good)) << good;
  for (const char* bad : {"", "2026", "2026-3-01", "2026-03-01 12:34:56", "2026-03-01T12:34:56", "2026-03-01T12:34:56+",
                          "today-1234", "2026-03-01T12:34:56Zz"})
    EXPECT_FALSE(is_time(bad)) << bad;
}

// The lists of fields that reader and writer follow are the tables of the page.
TEST(ShadowLog, IsDocumentedFieldByField) {
  const std::string page = read_text("docs/formats.md"), tables = shadow_log_tables();
  EXPECT_NE(page.find(tables), std::string::npos) << "docs/formats.md, shadow log wants:\n" << tables;
}

}  // namespace
}  // namespace exeunt
