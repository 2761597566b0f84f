// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/files.h"

#include <fstream>

#include "tests/scratch.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Files, APathExistsAsAFileOrAFolder) {
  const Scratch scratch;
  EXPECT_TRUE(path_exists(scratch.write("a", "")));
  EXPECT_TRUE(path_exists(scratch.path()));
  EXPECT_FALSE(path_exists(scratch.path() / "b"));
  EXPECT_FALSE(path_exists(scratch.path() / "a" / "b"));  // the error "not a folder" means that it is not there
  EXPECT_FALSE(path_exists(std::string(10'000, 'x')));    // and so does "name too long"
}

TEST(Files, MappingShowsTheBytes) {
  const Scratch scratch;
  EXPECT_EQ(MappedFile::open(scratch.write("a", "hello"))->text(), "hello");
  EXPECT_EQ(MappedFile::open(scratch.write("empty", ""))->text(), "");
}

size_t resident_pages() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident;
}

TEST(Files, DroppedPagesLeaveMemoryAndComeBackFromTheFile) {
  const Scratch scratch;
  const std::string text(size_t{16} << 20, 'x');
  const auto file = MappedFile::open(scratch.write("big", text));
  ASSERT_EQ(file->text(), text);
  const size_t before = resident_pages();
  drop_pages(file->bytes());
  EXPECT_LT(resident_pages() + 3000, before);  // of 4096 pages of 4 KiB
  EXPECT_EQ(file->text(), text);
  drop_pages(file->bytes().first(10));  // no whole page: nothing to do
  drop_pages({});
}

TEST(Files, MissingAndSpecialFilesAreErrors) {
  const Scratch scratch;
  EXPECT_THAT(error_of([&] { (void)MappedFile::open(scratch.path() / "none"); }).what(), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { (void)MappedFile::open(scratch.path()); }).what(), HasSubstr("got a folder"));
  EXPECT_THAT(error_of([&] { (void)MappedFile::open("/dev/null"); }).what(), HasSubstr("special file"));
  EXPECT_THAT(error_of([&] { (void)read_text(scratch.write("big", "12345"), 4); }).what(), HasSubstr("at most 4"));
}

TEST(Files, AnUncommittedFileLeavesNothing) {
  const Scratch scratch;
  const auto path = scratch.write("x", "old");
  {
    AtomicFile file(path);
    file.write("new");
  }
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(entries(scratch.path()), 1U);
  write_atomically(path, "new");
  EXPECT_EQ(read_text(path), "new");
  EXPECT_EQ(entries(scratch.path()), 1U);
}

TEST(Files, AFullDiskIsAnErrorOfResources) {
  EXPECT_EQ(error_of([] { write_atomically("/proc/none/x", "a"); }).code(), Code::resources);
}

TEST(Files, AFolderAppearsWholeOrNotAtAll) {
  const Scratch scratch;
  const fs::path target = scratch.path() / "model";
  { const AtomicFolder folder(target); }
  EXPECT_EQ(entries(scratch.path()), 0U);
  {
    AtomicFolder folder(target);
    std::ofstream(folder.path() / "a") << "1";
    EXPECT_FALSE(fs::exists(target));
    folder.commit();
  }
  EXPECT_EQ(read_text(target / "a"), "1");
  EXPECT_EQ(error_of([&] { const AtomicFolder again(target); }).code(), Code::usage);
  {
    AtomicFolder folder(target, true);
    std::ofstream(folder.path() / "b") << "2";
    folder.commit();
  }
  EXPECT_FALSE(fs::exists(target / "a"));
  EXPECT_EQ(read_text(target / "b"), "2");
  EXPECT_EQ(entries(scratch.path()), 1U);
}

TEST(Files, AFolderThatAppearedInTheMeantimeIsKept) {
  const Scratch scratch;
  const fs::path target = scratch.path() / "model";
  {
    AtomicFolder folder(target);
    std::ofstream(folder.path() / "a") << "ours";
    fs::create_directory(target);
    std::ofstream(target / "a") << "theirs";
    EXPECT_EQ(error_of([&] { folder.commit(); }).code(), Code::usage);
  }
  EXPECT_EQ(read_text(target / "a"), "theirs");
  EXPECT_EQ(entries(scratch.path()), 1U);
}

}  // namespace
}  // namespace exeunt
