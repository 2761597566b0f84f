// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/locate.h"

#include <cstdlib>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A repository of the cache, as huggingface_hub lays it out.
class Cache {
 public:
  Cache() {
    fs::create_directories(repository() / "blobs");
    fs::create_directories(snapshot());
    fs::create_directories(repository() / "refs");
    fs::create_directories(repository() / "trees");
    fs::create_directories(repository() / ".no_exist" / "abc123");
    scratch_.write("models--org--name/refs/main", "abc123\n");
    scratch_.write("models--org--name/blobs/f00", "{}");
    fs::create_symlink("../../blobs/f00", snapshot() / "config.json");
  }
  [[nodiscard]] fs::path folder() const { return scratch_.path(); }
  [[nodiscard]] fs::path repository() const { return scratch_.path() / "models--org--name"; }
  [[nodiscard]] fs::path snapshot() const { return repository() / "snapshots" / "abc123"; }
  [[nodiscard]] const Scratch& scratch() const { return scratch_; }

 private:
  Scratch scratch_;
};

TEST(HubCache, FindsTheSnapshotThatMainNames) {
  const Cache cache;
  fs::create_directories(cache.repository() / "snapshots" / "older");
  EXPECT_EQ(find_in_hub_cache("org/name", cache.folder()), cache.snapshot());
}

TEST(HubCache, UsesOnlySnapshotWithoutReference) {
  const Cache cache;
  fs::remove_all(cache.repository() / "refs");
  EXPECT_EQ(find_in_hub_cache("org/name", cache.folder()), cache.snapshot());
  fs::create_directories(cache.repository() / "snapshots" / "other");
  const Error error = error_of([&] { (void)find_in_hub_cache("org/name", cache.folder()); });
  EXPECT_THAT(error.what(), HasSubstr("got 2 snapshots and no refs/main, want one"));
  EXPECT_THAT(error.hint(), HasSubstr("give the folder of the snapshot"));
}

TEST(HubCache, ReadsPlainFiles) {
  const Cache cache;
  fs::remove(cache.snapshot() / "config.json");
  cache.scratch().write("models--org--name/snapshots/abc123/config.json", "{}");
  EXPECT_EQ(find_in_hub_cache("org/name", cache.folder()), cache.snapshot());
}

TEST(HubCache, ErrorExplainsHowToDownload) {
  const Cache cache;
  const Error error = error_of([&] { (void)find_in_hub_cache("org/absent", cache.folder()); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("org/absent: no such folder, and not in the Hugging Face cache"));
  EXPECT_THAT(error.hint(), HasSubstr("nothing is downloaded: run 'hf download org/absent'"));
}

TEST(HubCache, RejectsLinkOutsideRepository) {
  const Cache cache;
  cache.scratch().write("secret", "x");
  fs::create_symlink("../../../secret", cache.snapshot() / "vocab.txt");
  EXPECT_THAT(error_of([&] { (void)find_in_hub_cache("org/name", cache.folder()); }).what(),
              HasSubstr("vocab.txt: leads to"));
  fs::remove(cache.snapshot() / "vocab.txt");
  fs::create_directory_symlink("/", cache.snapshot() / "onnx");
  EXPECT_THAT(error_of([&] { (void)find_in_hub_cache("org/name", cache.folder()); }).what(),
              HasSubstr("onnx: leads to /, want a file inside"));
}

// A folder from elsewhere may link to files that only its user may read.
TEST(LocateModel, ModelFolderIsItsOwnTree) {
  const Scratch scratch;
  scratch.write("secret", "x");
  const fs::path folder = scratch.path() / "model";
  fs::create_directories(folder / "tokenizer");
  fs::create_symlink("tokenizer", folder / "other");
  scratch.write("model/config.json", "{}");
  fs::create_symlink("../config.json", folder / "tokenizer" / "config.json");
  EXPECT_EQ(locate_model(folder.string()), folder);
  const auto refused = [&](const fs::path& target, const fs::path& link) {
    fs::create_symlink(target, folder / link);
    const Error error = error_of([&] { (void)locate_model(folder.string()); });
    EXPECT_EQ(error.code(), Code::bad_file);
    EXPECT_THAT(error.what(), HasSubstr(link.string() + ": leads to"));
    EXPECT_THAT(error.what(), HasSubstr("outside the model folder"));
    fs::remove(folder / link);
  };
  refused("../secret", "README.md");
  refused(scratch.path() / "secret", "vocab.txt");
  refused("../../secret", "tokenizer/vocab.txt");
  refused("/", "onnx");
  refused("../absent", "merges.txt");  // someone may put a file there later
  // A folder that is itself reached by a link is its user's choice.
  fs::create_directory_symlink(folder, scratch.path() / "mine");
  EXPECT_NO_THROW((void)locate_model((scratch.path() / "mine").string()));
}

TEST(LocateModel, SnapshotSharesRepositoryTree) {
  const Cache cache;
  EXPECT_EQ(locate_model(cache.snapshot().string()), cache.snapshot());
  cache.scratch().write("secret", "x");
  fs::create_symlink("../../../secret", cache.snapshot() / "vocab.txt");
  EXPECT_THAT(error_of([&] { (void)locate_model(cache.snapshot().string()); }).what(),
              HasSubstr("outside the model folder"));
}

TEST(HubCache, RejectsReferenceOutsideRepository) {
  const Cache cache;
  cache.scratch().write("models--org--name/refs/main", "../../x");
  EXPECT_THAT(error_of([&] { (void)find_in_hub_cache("org/name", cache.folder()); }).what(),
              HasSubstr("got '../../x', want the name of a snapshot"));
}

TEST(HubCache, DetectsIncompleteDownload) {
  const Cache cache;
  fs::remove(cache.repository() / "blobs" / "f00");
  EXPECT_THAT(error_of([&] { (void)find_in_hub_cache("org/name", cache.folder()); }).what(),
              HasSubstr("the download is incomplete"));
  fs::remove_all(cache.snapshot());
  EXPECT_THAT(error_of([&] { (void)find_in_hub_cache("org/name", cache.folder()); }).what(),
              HasSubstr("snapshot abc123 is not there"));
}

TEST(HubCache, DistinguishesNameFromPath) {
  for (const char* name : {"bert-base-uncased", "org/name", "a.b/c_d-e1"}) EXPECT_TRUE(is_hub_name(name)) << name;
  for (const char* name : {"", "/", "a/b/c", "../x", "./x", "a//b", "a/..", "a--b/c", "org/", "/abs", "a b", "~/x"}) {
    EXPECT_FALSE(is_hub_name(name)) << name;
  }
}

TEST(HubCache, HonoursEnvironmentVariables) {
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  const auto with = [](const char* name, const char* value) {
    for (const char* other : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) ::unsetenv(other);
    ::setenv("HOME", "/home/x", 1);
    if (name != nullptr) ::setenv(name, value, 1);
    return hub_cache_folder();
  };
  EXPECT_EQ(with("HF_HUB_CACHE", "/a"), "/a");
  EXPECT_EQ(with("HUGGINGFACE_HUB_CACHE", "/b"), "/b");
  EXPECT_EQ(with("HF_HOME", "/c"), "/c/hub");
  EXPECT_EQ(with("XDG_CACHE_HOME", "/d"), "/d/huggingface/hub");
  EXPECT_EQ(with(nullptr, nullptr), "/home/x/.cache/huggingface/hub");
  ::setenv("HOME", before.c_str(), 1);
}

TEST(Locate, SortsCheckpointsByStep) {
  const Scratch scratch;
  for (const char* name : {"checkpoint-1000", "checkpoint-20", "checkpoint-3", "checkpoint-x", "checkpoint-", "logs"})
    std::filesystem::create_directories(scratch.path() / name);
  (void)scratch.write("checkpoint-7", "a file");
  std::vector<std::string> names;
  for (const auto& path : checkpoints_in(scratch.path())) names.push_back(path.filename().string());
  EXPECT_THAT(names, testing::ElementsAre("checkpoint-3", "checkpoint-20", "checkpoint-1000"));
  EXPECT_TRUE(checkpoints_in(scratch.path() / "nowhere").empty());
}

}  // namespace
}  // namespace exeunt
