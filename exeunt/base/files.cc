// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// A failed write is a resource error (full disk, read-only folder), not a bad file.
[[noreturn]] void throw_write_error(const fs::path& path, std::string_view action) {
  const int error = errno;
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "free some space or choose another --out";
  if (error == EACCES || error == EROFS || error == EPERM) hint = "choose a folder you may write to";
  throw Error(Code::resources, fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(error)), hint);
}

void write_all(int descriptor, const fs::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_error(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void flush_path(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) throw_write_error(path, "open to flush");
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  if (result != 0) throw_write_error(path, "flush");
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

constexpr size_t kSuffix = 16;  // hexadecimal digits

// A hidden name next to `path`. It is random: process numbers are used again, in a container at every start.
fs::path name_beside(const fs::path& path, std::string_view tag) {
  std::random_device random;
  return parent_of(path) / fmt::format(".{}.{}-{:08x}{:08x}", path.filename().string(), tag, random(), random());
}

bool lock(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

// Removes what killed writers of `path` left: writers that live hold a lock.
void remove_stale(const fs::path& path) {
  const std::string start = fmt::format(".{}.partial-", path.filename().string());
  std::error_code ignored;
  for (fs::directory_iterator at(parent_of(path), ignored), end; at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(start) || name.size() != start.size() + kSuffix) continue;
    if (name.find_first_not_of("0123456789abcdef", start.size()) != std::string::npos) continue;
    const int descriptor = ::open(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (lock(descriptor)) fs::remove_all(at->path(), ignored);
    ::close(descriptor);
  }
}

// Creates a file or folder with a hidden name next to `path`. The descriptor holds its lock.
int create_beside(const fs::path& path, bool folder, fs::path& made) {
  remove_stale(path);
  for (;;) {
    made = name_beside(path, "partial");
    const bool ready = !folder || ::mkdir(made.c_str(), 0755) == 0;
    const int flags = folder ? O_RDONLY | O_DIRECTORY : O_WRONLY | O_CREAT | O_EXCL;
    const int descriptor = ready ? ::open(made.c_str(), flags | O_CLOEXEC, 0644) : -1;
    if (descriptor < 0) {
      if (errno == EEXIST || (folder && ready && errno == ENOENT)) continue;
      throw_write_error(path, folder ? "create folder" : "create");
    }
    // Another writer may have taken it for a stale one before we locked it. A file system without locks has no such
    // writers.
    if ((lock(descriptor) || errno != EWOULDBLOCK) && path_exists(made)) return descriptor;
    ::close(descriptor);
  }
}

}  // namespace

bool path_exists(const fs::path& path) noexcept {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path tree_of(const fs::path& folder) {
  std::error_code missing;
  const fs::path whole = fs::canonical(folder, missing);
  if (missing) return folder;
  const fs::path repository = whole.parent_path().parent_path();
  const bool snapshot =
      whole.parent_path().filename() == "snapshots" && repository.filename().string().starts_with("models--");
  return snapshot ? repository : whole;
}

ReadPath ReadPath::in(const fs::path& folder, const fs::path& name) {
  ReadPath out(folder / name);
  const fs::path place = folder.empty() ? fs::path(".") : folder;
  std::error_code missing;
  out.root_ = tree_of(place);
  const fs::path whole = fs::canonical(place, missing);
  out.below_ = missing ? name : (whole / name).lexically_relative(out.root_);
  return out;
}

namespace {

constexpr int kToRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

// As openat(), but fails with EXDEV if `below` leads out of the folder `root`, and with ENOSYS where the kernel is old.
int open_beneath(int root, const fs::path& below) {
#ifdef SYS_openat2
  open_how how{};
  how.flags = kToRead;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, root, below.c_str(), &how, sizeof how));
#else
  (void)root, (void)below;
  errno = ENOSYS;
  return -1;
#endif
}

}  // namespace

int ReadPath::open(bool asked) const {
  if (root_.empty()) return ::open(path_.c_str(), kToRead);
  const int root = ::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return -1;
  const auto beneath = [&](const fs::path& below) {
    if (asked) return open_beneath(root, below);
    errno = ENOSYS;
    return -1;
  };
  int out = beneath(below_);
  // A sandbox may forbid what it does not know. And an absolute link may lead back into the folder.
  if (out < 0 && (errno == ENOSYS || errno == EPERM || errno == EXDEV)) {
    std::error_code missing;
    const fs::path real = fs::canonical(path_, missing);
    const fs::path below = real.lexically_relative(root_);
    if (!missing && (below.empty() || below.begin()->string() == "..")) {
      ::close(root);
      throw_bad_file(path_.string(), Hint{"copy the file into the folder if you trust it"},
                     "leads to {}, outside the model folder", real.string());
    }
    errno = missing.value();
    if (!missing) out = beneath(below);
    if (out < 0 && (errno == ENOSYS || errno == EPERM)) out = ::open(real.c_str(), kToRead | O_NOFOLLOW);
  }
  const int error = errno;
  ::close(root);
  errno = error;
  return out;
}

std::shared_ptr<const MappedFile> MappedFile::open(const ReadPath& path, size_t limit) {
  const int descriptor = path.open();
  if (descriptor < 0) throw_bad_file(path.string(), "cannot open: {}", std::strerror(errno));
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    throw_bad_file(path.string(), "got a {}, want a regular file", S_ISDIR(info.st_mode) ? "folder" : "special file");
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size > limit) {
    ::close(descriptor);
    throw_bad_file(path.string(), "got {} bytes, want at most {}", size, limit);
  }
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int error = errno;
    if (data == MAP_FAILED) {
      ::close(descriptor);
      throw_bad_file(path.string(), "cannot map {} bytes: {}", size, std::strerror(error));
    }
  }
  ::close(descriptor);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string_view MappedFile::text() const noexcept {
  return {reinterpret_cast<const char*>(data_), size_};
}

void drop_pages(std::span<const std::byte> part) noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(part.data()) % page) % page;  // up to the first whole page
  if (part.size() < before + page) return;
  auto* begin = const_cast<std::byte*>(part.data()) + before;
  ::madvise(begin, (part.size() - before) / page * page, MADV_DONTNEED);  // a hint: failure is harmless
}

std::string read_text(const ReadPath& path, size_t limit) {
  return std::string(MappedFile::open(path, limit)->text());
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), descriptor_(create_beside(path_, false, temporary_)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, path_, bytes);
}
void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  check(descriptor_ >= 0, "a file is committed once");
  if (::fsync(descriptor_) != 0) throw_write_error(path_, "flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error(path_, "rename into place");
  ::close(descriptor_);
  descriptor_ = -1;
  flush_path(parent_of(path_), O_RDONLY | O_DIRECTORY);
}

void write_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

int open_to_append(const fs::path& path, unsigned mode) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0 && errno == ELOOP) {
    throw Error(Code::resources, fmt::format("{}: is a link, and logs are not written through links", path.string()),
                "remove it, or name another file");
  }
  if (descriptor < 0) throw_write_error(path, "write");
  return descriptor;
}

void append_text(const fs::path& path, std::string_view text) {
  const int descriptor = open_to_append(path);
  try {
    write_all(descriptor, path, std::as_bytes(std::span(text)));
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (::close(descriptor) != 0) throw_write_error(path, "write");
}

AtomicFolder::AtomicFolder(fs::path target, bool replace)
    : target_(target.has_filename() ? std::move(target) : target.parent_path()), replace_(replace) {
  std::error_code ignored;
  if (path_exists(target_) && !replace_) {
    throw Error(Code::usage, fmt::format("{}: already exists", target_.string()), "choose another name or add --force");
  }
  fs::create_directories(parent_of(target_), ignored);
  lock_ = create_beside(target_, true, staging_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!done_) fs::remove_all(staging_, ignored);
  ::close(lock_);
}

void AtomicFolder::commit() {
  check(!done_, "a folder is committed once");
  for (const auto& entry : fs::recursive_directory_iterator(staging_)) {
    flush_path(entry.path(), entry.is_directory() ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  }
  flush_path(staging_, O_RDONLY | O_DIRECTORY);
  std::error_code ignored;
  const bool occupied = path_exists(target_);
  if (occupied && !replace_) throw Error(Code::usage, fmt::format("{}: already exists", target_.string()));
  // The two change places at once, or, on a file system that cannot do that, one after the other.
  fs::path retired = staging_;
  if (!occupied || ::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    retired = name_beside(target_, "old");
    if (occupied && ::rename(target_.c_str(), retired.c_str()) != 0)
      throw_write_error(target_, "move the old folder aside");
    if (::rename(staging_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      if (occupied) ::rename(retired.c_str(), target_.c_str());
      errno = error;
      throw_write_error(target_, "rename into place");
    }
  }
  done_ = true;
  if (occupied) fs::remove_all(retired, ignored);
  flush_path(parent_of(target_), O_RDONLY | O_DIRECTORY);
}

}  // namespace exeunt
