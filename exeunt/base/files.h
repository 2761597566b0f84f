// SPDX-License-Identifier: Apache-2.0
// Memory-mapped reading, and atomic writing: a reader sees the old file or the new one, never a partial one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace exeunt {

// Whether a file or folder is there; one that may not be looked at counts as missing.
[[nodiscard]] bool path_exists(const std::filesystem::path& path) noexcept;

// A regular file mapped read-only for the life of the object.
class MappedFile {
 public:
  // Throws Error: bad_file if the file is missing, unreadable or not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
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

// The whole file as text; rejects files larger than `limit` bytes.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, size_t limit = size_t{1} << 28);

// Writes to a temporary file next to `path` that commit() renames; without commit() nothing is left behind.
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
  int descriptor_ = -1;
};

void write_atomically(const std::filesystem::path& path, std::string_view text);

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
};

}  // namespace exeunt
