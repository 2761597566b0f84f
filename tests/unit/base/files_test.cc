// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/files.h"

#include <cstring>
#include <fstream>

#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Files, PathExistsForFilesAndFolders) {
  const Scratch scratch;
  EXPECT_TRUE(path_exists(scratch.write("a", "")));
  EXPECT_TRUE(path_exists(scratch.path()));
  EXPECT_FALSE(path_exists(scratch.path() / "b"));
  EXPECT_FALSE(path_exists(scratch.path() / "a" / "b"));  // the error "not a folder" means that it is not there
  EXPECT_FALSE(path_exists(std::string(10'000, 'x')));    // and so does "name too long"
}

TEST(Files, MapsBytes) {
  const Scratch scratch;
  EXPECT_EQ(MappedFile::open(scratch.write("a", "hello"))->text(), "hello");
  EXPECT_EQ(MappedFile::open(scratch.write("empty", ""))->text(), "");
}

size_t resident_pages() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident;
}

TEST(Files, DroppedPagesAreReadAgain) {
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

TEST(Files, RejectsMissingAndSpecialFiles) {
  const Scratch scratch;
  EXPECT_THAT(error_of([&] { (void)MappedFile::open(scratch.path() / "none"); }).what(), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { (void)MappedFile::open(scratch.path()); }).what(), HasSubstr("got a folder"));
  EXPECT_THAT(error_of([&] { (void)MappedFile::open("/dev/null"); }).what(), HasSubstr("special file"));
  EXPECT_THAT(error_of([&] { (void)read_text(scratch.write("big", "12345"), 4); }).what(), HasSubstr("at most 4"));
}

TEST(Files, UncommittedFileLeavesNothing) {
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

// As in a container, where every start has the same process number.
TEST(Files, KilledProcessOfSameNumberBlocksNone) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "x", folder = scratch.path() / "model";
  for (int i = 0; i < 100; ++i) {
    scratch.write(fmt::format(".x.partial-{}-{}", ::getpid(), i), "");
    fs::create_directory(scratch.path() / fmt::format(".model.partial-{}-{}", ::getpid(), i));
  }
  write_atomically(file, "new");
  EXPECT_EQ(read_text(file), "new");
  AtomicFolder(folder).commit();
  EXPECT_TRUE(fs::is_directory(folder));
}

TEST(Files, RemovesWhatKilledWritersLeft) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "x", folder = scratch.path() / "model";
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile left_file(file);
    const AtomicFolder left_folder(folder);
    std::ofstream(left_folder.path() / "a") << "1";
    ::_exit(0);  // without destructors, as if it was killed
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(entries(scratch.path()), 2U);
  scratch.write(".x.partial-notes of the user", "");
  scratch.write(".y.partial-0123456789abcdef", "");
  write_atomically(file, "new");
  AtomicFolder(folder).commit();
  EXPECT_EQ(entries(scratch.path()), 4U) << "the two results, and the two files that are not of these paths";
}

TEST(Files, KeepsWhatOtherWritersHold) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "x", folder = scratch.path() / "model";
  AtomicFile slow_file(file);
  AtomicFolder slow_folder(folder, true);
  std::ofstream(slow_folder.path() / "a") << "slow";
  write_atomically(file, "quick");
  AtomicFolder(folder, true).commit();
  slow_file.write("slow");
  slow_file.commit();
  slow_folder.commit();
  EXPECT_EQ(read_text(file), "slow");
  EXPECT_EQ(read_text(folder / "a"), "slow");
  EXPECT_EQ(entries(scratch.path()), 2U);
}

TEST(Files, FullDiskIsResourcesError) {
  const Error missing = error_of([] { write_atomically("/proc/none/x", "a"); });
  EXPECT_EQ(missing.code(), Code::resources);
  EXPECT_EQ(missing.hint(), "") << "other rights would not help";
}

TEST(Files, AppendReportsWhatCannotBeWritten) {
  const Scratch scratch;
  append_text(scratch.path() / "log", "a\n");
  append_text(scratch.path() / "log", "b\n");
  EXPECT_EQ(read_text(scratch.path() / "log"), "a\nb\n");
  const Error error = error_of([&] { append_text(scratch.path() / "none" / "log", "x"); });
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_THAT(error.what(), HasSubstr("none/log: cannot write: No such file or directory"));
}

TEST(Files, FolderIsWrittenAtomically) {
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

// The names in `watched` that were moved, in their order.
std::vector<std::string> moved_names(int watched) {
  alignas(inotify_event) char buffer[4096];
  const ssize_t got = ::read(watched, buffer, sizeof buffer);
  std::vector<std::string> out;
  for (ssize_t at = 0; at < got;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
    out.emplace_back(event->name);
    at += static_cast<ssize_t>(sizeof *event + event->len);
  }
  return out;
}

TEST(Files, ReplacedFolderIsNeverMissing) {
  const Scratch scratch;
  const fs::path target = scratch.path() / "model";
  fs::create_directory(target);
  AtomicFolder folder(target, true);
  std::ofstream(folder.path() / "new") << "1";
  const int watch = ::inotify_init1(IN_NONBLOCK);
  ASSERT_GE(::inotify_add_watch(watch, scratch.path().c_str(), IN_MOVE), 0);
  const std::string staging = folder.path().filename();
  folder.commit();
  // Each pair is a move: the new folder takes the place before the old one has left it.
  EXPECT_THAT(moved_names(watch), testing::ElementsAre(staging, "model", "model", staging));
  ::close(watch);
  EXPECT_TRUE(fs::exists(target / "new"));
  EXPECT_EQ(entries(scratch.path()), 1U);
}

TEST(Files, KeepsFolderCreatedMeanwhile) {
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

std::string read_through(const ReadPath& path, bool asked) {
  const int descriptor = path.open(asked);
  if (descriptor < 0) return std::strerror(errno);
  std::string out(100, ' ');
  const ssize_t got = ::read(descriptor, out.data(), out.size());
  ::close(descriptor);
  return out.substr(0, static_cast<size_t>(std::max<ssize_t>(got, 0)));
}

// By the kernel, and by our own check where the kernel is old.
TEST(ReadPath, RejectsSymlinkOutsideFolder) {
  const Scratch scratch;
  const fs::path folder = scratch.path() / "model";
  fs::create_directories(folder / "assets");
  scratch.write("secret", "secret");
  scratch.write("model/own", "own");
  fs::create_symlink("own", folder / "near");
  fs::create_symlink("../own", folder / "assets" / "up");
  fs::create_symlink(folder / "own", folder / "absolute");
  fs::create_symlink("../secret", folder / "out");
  fs::create_symlink(scratch.path() / "secret", folder / "far");
  fs::create_symlink("..", folder / "parent");
  fs::create_symlink("/proc/self/cwd", folder / "magic");
  fs::create_directory_symlink(folder, scratch.path() / "mine");  // a link of the user's own
  for (const bool asked : {true, false}) {
    for (const fs::path& place : {folder, scratch.path() / "mine"}) {
      for (const char* name : {"own", "near", "assets/up", "absolute"})
        EXPECT_EQ(read_through(ReadPath::in(place, name), asked), "own") << name << asked;
      for (const char* name : {"out", "far", "parent/secret", "magic"}) {
        const Error error = error_of([&] { (void)read_through(ReadPath::in(place, name), asked); });
        EXPECT_EQ(error.code(), Code::bad_file);
        EXPECT_THAT(error.what(), HasSubstr("outside the model folder")) << name << asked;
      }
      EXPECT_EQ(read_through(ReadPath::in(place, "none"), asked), "No such file or directory");
    }
  }
  EXPECT_EQ(read_text(folder / "out"), "secret") << "a path that the user gives may lead anywhere";
  EXPECT_THAT(error_of([&] { (void)read_text(ReadPath::in(folder, "out")); }).what(), HasSubstr("leads to"));
}

TEST(ReadPath, AllowsLinksWithinSnapshotRepository) {
  const Scratch scratch;
  const fs::path repository = scratch.path() / "models--org--name", snapshot = repository / "snapshots" / "abc";
  fs::create_directories(repository / "blobs");
  fs::create_directories(snapshot);
  scratch.write("secret", "secret");
  scratch.write("models--org--name/blobs/f00", "blob");
  fs::create_symlink("../../blobs/f00", snapshot / "config.json");
  fs::create_symlink("../../../secret", snapshot / "vocab.txt");
  EXPECT_EQ(tree_of(snapshot), fs::canonical(repository));
  for (const bool asked : {true, false}) {
    EXPECT_EQ(read_through(ReadPath::in(snapshot, "config.json"), asked), "blob");
    EXPECT_THAT(error_of([&] { (void)read_through(ReadPath::in(snapshot, "vocab.txt"), asked); }).what(),
                HasSubstr("outside the model folder"));
  }
}

TEST(Files, AppendNeverFollowsLink) {
  const Scratch scratch;
  const fs::path log = scratch.path() / "log";
  append_text(log, "a\n");
  append_text(log, "b\n");
  EXPECT_EQ(read_text(log), "a\nb\n");
  scratch.write("precious", "precious");
  for (const char* target : {"precious", "absent"}) {
    fs::create_symlink(target, scratch.path() / "link");
    const Error error = error_of([&] { append_text(scratch.path() / "link", "x"); });
    EXPECT_EQ(error.code(), Code::resources);
    EXPECT_THAT(error.what(), HasSubstr("is a link"));
    fs::remove(scratch.path() / "link");
  }
  EXPECT_EQ(read_text(scratch.path() / "precious"), "precious");
  EXPECT_FALSE(path_exists(scratch.path() / "absent"));
  EXPECT_EQ(error_of([] { append_text("/dev/full", "x"); }).code(), Code::resources);
}

}  // namespace
}  // namespace exeunt
