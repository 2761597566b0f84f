// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "exeunt/data/user_data.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts_in(const Dataset& data) {
  std::vector<std::string> out;
  for (const Example& example : data.examples) out.push_back(example.text);
  return out;
}

TEST(DataFiles, SeveralFilesAreOneDataset) {
  const Scratch scratch;
  const std::string a = scratch.write("a.csv", "text,label\none,x\ntwo,y\n").string();
  const std::string b = scratch.write("b.jsonl", "{\"label\": \"x\", \"text\": \"three\"}\n").string();
  const Dataset data = read_user_data(a + "," + b, {});
  EXPECT_THAT(texts_in(data), ElementsAre("one", "two", "three"));
  EXPECT_THAT(data.labels, ElementsAre("x", "y"));
  EXPECT_EQ(data.examples[2].index, 2);
  EXPECT_NE(data.sha256, read_user_data(a, {}).sha256);
  const std::string odd = scratch.write("a,b.csv", "text,label\nfour,x\nfive,y\n").string();
  EXPECT_THAT(texts_in(read_user_data(odd, {})), ElementsAre("four", "five")) << "a file whose name has a comma";
}

TEST(DataFiles, FolderHoldsTablesOrOneFolderOfTextsForEachLabel) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "tables");
  (void)scratch.write("tables/2.csv", "text,label\nb,y\n");
  (void)scratch.write("tables/1.tsv", "label\ttext\nx\ta\n");
  EXPECT_THAT(texts_in(read_user_data((scratch.path() / "tables").string(), {})), ElementsAre("a", "b"));

  for (const char* name : {"mail/ham", "mail/spam", "split/train/a", "split/test/a"})
    std::filesystem::create_directories(scratch.path() / name);
  (void)scratch.write("mail/spam/1.txt", "win money\nnow\n");
  (void)scratch.write("mail/ham/2.txt", "hello");
  (void)scratch.write("mail/ham/1.txt", "bye\r\n");
  (void)scratch.write("mail/ham/notes.md", "no text of the data");
  const Dataset mail = read_user_data((scratch.path() / "mail").string(), {});
  EXPECT_THAT(texts_in(mail), ElementsAre("bye", "hello", "win money\nnow"));
  EXPECT_THAT(mail.labels, ElementsAre("ham", "spam"));
  EXPECT_EQ(mail.examples[2].gold, 1);

  const Error splits = error_of([&] { (void)read_user_data((scratch.path() / "split").string(), {}); });
  EXPECT_THAT(splits.what(), HasSubstr("got a folder of splits, test, train"));
  EXPECT_THAT(splits.hint(), HasSubstr("name one of them: --data"));
}

TEST(DataFiles, KnowsFormatsAlsoOfPackedFiles) {
  EXPECT_EQ(format_of("a.csv.gz"), DataFormat::csv);
  EXPECT_EQ(format_of("a.ndjson.gz"), DataFormat::jsonl);
  EXPECT_EQ(format_of("a.tsv"), DataFormat::tsv);
  EXPECT_EQ(format_of("a.gz"), std::nullopt);
  EXPECT_EQ(format_of("a.xlsx"), std::nullopt);
}

}  // namespace
}  // namespace exeunt
