// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "lab/elue/submission.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

uint64_t number_at(std::string_view bytes, size_t at, int width) {
  uint64_t out = 0;
  for (int i = width; i-- > 0;) out = (out << 8) | static_cast<uint8_t>(bytes.at(at + static_cast<size_t>(i)));
  return out;
}

TEST(Zip, ChecksumIsTheOneOfTheStandard) {
  const std::string zip = zip_stored(std::vector<StoredFile>{{"check", "123456789"}, {"nothing", ""}});
  EXPECT_EQ(number_at(zip, 14, 4), 0xCBF43926U);
  EXPECT_EQ(number_at(zip, 30 + 5 + 9 + 14, 4), 0U);
}

TEST(Zip, DirectoryLeadsBackToEveryFile) {
  const std::vector<StoredFile> entries = {{"a.tsv", "hello\n"}, {"empty", ""}, {"b", std::string(70'000, 'x')}};
  const std::string zip = zip_stored(entries);
  const size_t end = zip.size() - 22;
  ASSERT_EQ(number_at(zip, end, 4), 0x06054B50U);
  ASSERT_EQ(number_at(zip, end + 10, 2), entries.size());
  size_t at = number_at(zip, end + 16, 4);
  EXPECT_EQ(at + number_at(zip, end + 12, 4), end);
  for (const StoredFile& entry : entries) {
    ASSERT_EQ(number_at(zip, at, 4), 0x02014B50U);
    EXPECT_EQ(number_at(zip, at + 16, 4), number_at(zip, number_at(zip, at + 42, 4) + 14, 4));
    EXPECT_EQ(number_at(zip, at + 24, 4), entry.content.size());
    EXPECT_EQ(zip.substr(at + 46, entry.name.size()), entry.name);
    const size_t local = number_at(zip, at + 42, 4);
    ASSERT_EQ(number_at(zip, local, 4), 0x04034B50U);
    EXPECT_EQ(zip.substr(local + 30, entry.name.size()), entry.name);
    EXPECT_EQ(zip.substr(local + 30 + entry.name.size(), entry.content.size()), entry.content);
    at += 46 + entry.name.size();
  }
  EXPECT_EQ(at, end);
}

TEST(Zip, AnotherReaderAcceptsTheArchive) {
  const Scratch scratch;
  const auto path = scratch.write("x.zip", zip_stored(std::vector<StoredFile>{{"a.tsv", "hello\n"}, {"b.tsv", "x"}}));
  const std::string program =
      "import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); "
      "sys.exit(0 if z.testzip() is None and z.namelist()==['a.tsv','b.tsv'] and z.read('a.tsv')==b'hello\\n' else 1)";
  EXPECT_EQ(std::system(("python3 -c \"" + program + "\" " + path.string()).c_str()), 0);
}

TEST(Zip, SameFilesGiveSameBytes) {
  const std::vector<StoredFile> entries = {{"a", "1"}};
  EXPECT_EQ(zip_stored(entries), zip_stored(entries));
}

}  // namespace
}  // namespace exeunt
