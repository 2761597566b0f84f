// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/text_stream.h"

#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts_of(const std::string& path, const TextColumns& columns = {}) {
  TextStream stream(path, columns);
  std::vector<std::string> out;
  for (TextRow row; stream.next(row);) {
    EXPECT_EQ(row.index, static_cast<int64_t>(out.size()));
    out.push_back(row.pair ? row.text + "|" + *row.pair : row.text);
  }
  return out;
}

TEST(TextStream, ReadsEveryFormatByExtension) {
  const Scratch scratch;
  EXPECT_THAT(texts_of(scratch.write("a.txt", "one, \"two\"\nthree\tfour\n").string()),
              ElementsAre("one, \"two\"", "three\tfour"));
  EXPECT_THAT(texts_of(scratch.write("a.csv", "id,text\r\n1,\"a\nb, \"\"c\"\"\"\r\n\r\n2,d").string()),
              ElementsAre("a\nb, \"c\"", "d"));
  EXPECT_THAT(texts_of(scratch.write("a.tsv", "\xEF\xBB\xBFtext\tother\n\"x\ty\nz\t\n").string(), {.pair = "other"}),
              ElementsAre("\"x|y", "z|"));
  EXPECT_THAT(texts_of(scratch.write("a.jsonl", "{\"text\": \"a\", \"n\": 1}\n\n{\"text\": \"b\"}").string()),
              ElementsAre("a", "b"));
  EXPECT_THAT(texts_of(scratch.write("a", "a\tb\n").string(), {.tab_pair = true}), ElementsAre("a|b"));
  EXPECT_THAT(texts_of(scratch.write("b", "text\nq\n").string(), {.form = DataFormat::csv}), ElementsAre("q"));
}

// Their bytes would be classified as if they were texts.
TEST(TextStream, RejectsFormatsThatAreNotLines) {
  const Scratch scratch;
  for (const char* name : {"a.json", "a.JSON", "a.json.gz", "a.xlsx", "a.parquet", "a.zip", "a.pdf", "a.html"}) {
    try {
      (void)texts_of(scratch.write(name, "[\"one\"]\n").string());
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::usage);
      EXPECT_THAT(error.what(), HasSubstr("want .csv, .tsv, .jsonl or lines of text"));
      EXPECT_FALSE(error.hint().empty());
    }
  }
  for (const char* name : {"a.log", "a.md", "v1.2", "a", "a.txt"})
    EXPECT_THAT(texts_of(scratch.write(name, "one\n").string()), ElementsAre("one")) << name;
  EXPECT_THAT(texts_of(scratch.write("b.json", "{\"text\": \"one\"}\n").string(), {.form = DataFormat::jsonl}),
              ElementsAre("one"));
}

TEST(TextStream, BlankLineIsARowOfPlainTextOnly) {
  const Scratch scratch;
  EXPECT_THAT(texts_of(scratch.write("a.txt", "a\n\nb\n").string()), ElementsAre("a", "", "b"));
  EXPECT_THAT(texts_of(scratch.write("a.csv", "text\na\n\nb\n").string()), ElementsAre("a", "b"));
}

// Longer than a block, so that rows, quotes and CR LF are cut at every place.
TEST(TextStream, ReadsRowsAcrossBlocks) {
  const Scratch scratch;
  std::string csv = "text,n\r\n", lines;
  std::vector<std::string> wanted;
  for (int i = 0; csv.size() < (3U << 20); ++i) {
    const std::string filler(static_cast<size_t>(i % 97), 'x');
    wanted.push_back(std::to_string(i) + "\n" + filler);
    csv += "\"" + wanted.back() + "\"," + filler + (i % 3 == 0 ? "\n" : "\r\n");
  }
  TextStream stream(scratch.write("big.csv", csv).string(), {});
  size_t rows = 0;
  int64_t line = 2;
  for (TextRow row; stream.next(row); ++rows) {
    ASSERT_EQ(row.text, wanted[rows]);
    ASSERT_THAT(row.place, testing::EndsWith(":" + std::to_string(line)));
    line += 2;
  }
  EXPECT_EQ(rows, wanted.size());
  EXPECT_EQ(stream.sha256(), sha256_hex(csv));
  EXPECT_EQ(stream.bytes_read(), static_cast<int64_t>(csv.size()));
  EXPECT_EQ(stream.size(), static_cast<int64_t>(csv.size()));
}

// What progress is shown by: a file of less than a block is not done with its first row.
TEST(TextStream, CountsBytesUpToTheLastRow) {
  const Scratch scratch;
  TextStream stream(scratch.write("a.csv", "text\na\nbb\n").string(), {});
  TextRow row;
  EXPECT_EQ(stream.bytes_read(), 0);
  ASSERT_TRUE(stream.next(row));
  EXPECT_EQ(stream.bytes_read(), 7);
  ASSERT_TRUE(stream.next(row));
  EXPECT_EQ(stream.bytes_read(), 10);
}

TEST(TextStream, ReadsLineEndAcrossBlocks) {
  const Scratch scratch;
  constexpr size_t kBlock = size_t{1} << 20;
  const std::string first(kBlock - 1, 'x');  // the CR is the last byte of the first block
  TextStream stream(scratch.write("a.txt", first + "\r\nb\r\n").string(), {});
  TextRow row;
  ASSERT_TRUE(stream.next(row));
  EXPECT_EQ(row.text, first);
  ASSERT_TRUE(stream.next(row));
  EXPECT_EQ(row.text, "b");
  EXPECT_THAT(row.place, testing::EndsWith(":2"));
  EXPECT_FALSE(stream.next(row));
}

TEST(TextStream, ReadsPipeInSmallPieces) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream out(path);
    for (const char* part : {"fi", "rst\r", "\nsec", "ond\rthi", "rd"}) out << part << std::flush;
  });
  TextStream stream(path, {});
  std::vector<std::string> texts;
  for (TextRow row; stream.next(row);) texts.push_back(row.text);
  writer.join();
  EXPECT_THAT(texts, ElementsAre("first", "second", "third"));
  EXPECT_EQ(stream.size(), std::nullopt);
}

TEST(TextStream, ErrorsHaveCauseAndPosition) {
  const Scratch scratch;
  const auto refused = [&](const std::string& name, std::string_view content, const TextColumns& columns = {}) {
    const Error error = error_of([&] { (void)texts_of(scratch.write(name, content).string(), columns); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what()) + " / " + error.hint();
  };
  EXPECT_THAT(refused("e.txt", ""), HasSubstr("got an empty file, want texts"));
  EXPECT_THAT(refused("h.csv", "text\n"), HasSubstr("got no row of data"));
  EXPECT_THAT(refused("c.csv", "txt,b\n1,2\n"), HasSubstr("did you mean 'txt'"));
  EXPECT_THAT(refused("c.tsv", "text\tb\n1\n"), HasSubstr("c.tsv:2: got 1 columns, want 2"));
  EXPECT_THAT(refused("q.csv", "text\n\"a\n"), HasSubstr("a quote that is never closed"));
  EXPECT_THAT(refused("u.txt", "ok\n\xFF\n"), HasSubstr("u.txt:2: column 1: byte 1 is 0xFF"));
  EXPECT_THAT(refused("w.txt", std::string_view("\xFF\xFEh\0", 4)), HasSubstr("UTF-16"));
  EXPECT_THAT(refused("l.jsonl", "{\"text\": 1}\n"), HasSubstr("l.jsonl:1: field 'text': got 1, want a string"));
  EXPECT_THAT(refused("m.jsonl", "{\"txt\": \"a\"}\n"), HasSubstr("no field 'text' / did you mean 'txt'"));
  EXPECT_THAT(refused("n.jsonl", "[1]\n"), HasSubstr("want one object per line"));
  EXPECT_THAT(refused("p.txt", "a\tb\nc\n", {.tab_pair = true}), HasSubstr("p.txt:2: got no tab"));
  EXPECT_THAT(error_of([&] { TextStream(scratch.path().string(), {}); }).what(), HasSubstr("got a folder"));
  EXPECT_THAT(error_of([&] { TextStream("no-such-file", {}); }).what(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace exeunt
