// SPDX-License-Identifier: Apache-2.0
// Memory-mapped reading, and atomic writing: a reader sees the old file or the new one, never a partial one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace exeunt {

// Whether a file or folder is there; one that may not be looked at counts as missing.
[[nodiscard]] bool path_exists(const std::filesystem::path& path) noexcept;

// The folder that the files of `folder` must lie in, whatever links lead to them: itself, or for a snapshot of a
// Hugging Face cache, whose links point to files shared by all snapshots, its repository.
[[nodiscard]] std::filesystem::path tree_of(const std::filesystem::path& folder);

// A file to be read. A path that its user gave may lead through any links. A file of a folder that came from elsewhere
// may not lead out of it: such a link would have us read, and copy into our output, what its author may not see.
class ReadPath {
 public:
  // NOLINTBEGIN(google-explicit-constructor): every path is one
  ReadPath(std::filesystem::path path) : path_(std::move(path)) {}
  ReadPath(const std::string& path) : path_(path) {}
  ReadPath(const char* path) : path_(path) {}
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] static ReadPath in(const std::filesystem::path& folder, const std::filesystem::path& name);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string string() const { return path_.string(); }
  // A descriptor to read from, -1 if it cannot be opened (see errno). Throws Error if it leads out of its folder. The
  // kernel resolves the path and forbids that; where it cannot (before Linux 5.6), or is not `asked`, we check first.
  [[nodiscard]] int open(bool asked = true) const;

 private:
  std::filesystem::path path_, root_ = {}, below_ = {};  // `below_`: the path from `root_`
};

// A regular file mapped read-only for the life of the object.
class MappedFile {
 public:
  // Throws Error: bad_file if the file is missing, unreadable, not a regular file or larger than `limit` bytes.
  static std::shared_ptr<const MappedFile> open(const ReadPath& path, size_t limit = SIZE_MAX);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const noexcept;

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

// Releases the memory of a part of a mapped file (whole pages only). The next access reads the file again.
void drop_pages(std::span<const std::byte> part) noexcept;

// The whole file as text.
[[nodiscard]] std::string read_text(const ReadPath& path, size_t limit = size_t{1} << 28);

// Writes to a temporary file next to `path` that commit() renames; without commit() nothing is left behind. What a
// killed process left of the same path is removed.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();  // flush to disk, rename, flush the folder

 private:
  std::filesystem::path path_, temporary_;
  int descriptor_;
};

void write_atomically(const std::filesystem::path& path, std::string_view text);

// Opens a file that grows, such as a log, at its end, and makes it if it is not there; never through a link. Throws
// Error: resources.
[[nodiscard]] int open_to_append(const std::filesystem::path& path, unsigned mode = 0644);
void append_text(const std::filesystem::path& path, std::string_view text);

// A folder written under a temporary name next to `target` and renamed into place by commit(). Files inside may be
// written directly. With `replace`, an existing folder is removed only after the new one is in place.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path target, bool replace = false);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return staging_; }
  void commit();  // flushes every file, then renames

 private:
  std::filesystem::path target_, staging_;
  bool replace_, done_ = false;
  int lock_ = -1;  // of `staging_`
};

}  // namespace exeunt
