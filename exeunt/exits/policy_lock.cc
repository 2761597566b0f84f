// SPDX-License-Identifier: Apache-2.0
// The lock beside a policy.json: a hidden file held with flock, so that it frees itself when its holder dies.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/exits/policy_file.h"

namespace exeunt {
namespace {

// Is the file behind `descriptor` still the one at `path`? Its last holder may have removed it in between.
bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat held {
  }, found{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &found) == 0 && held.st_ino == found.st_ino &&
         held.st_dev == found.st_dev;
}

}  // namespace

PolicyLock::PolicyLock(std::filesystem::path path)
    : path_(std::move(path)), lock_(path_.parent_path() / fmt::format(".{}.lock", path_.filename().string())) {
  while (true) {
    descriptor_ = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
      throw Error(Code::resources, fmt::format("{}: cannot lock: {}", path_.string(), std::strerror(errno)),
                  "choose a folder you may write to");
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const bool busy = errno == EWOULDBLOCK;
      const std::string why = busy ? "another calibration is at work on it" : std::strerror(errno);
      ::close(descriptor_);
      throw Error(Code::resources, fmt::format("{}: cannot lock: {}", path_.string(), why),
                  busy ? "wait until it is done, or write elsewhere with --out" : "");
    }
    if (same_file(descriptor_, lock_)) return;
    ::close(descriptor_);
  }
}

PolicyLock::~PolicyLock() {
  ::unlink(lock_.c_str());  // while still held, so that nobody locks a file that is about to go
  ::close(descriptor_);
}

void PolicyLock::write(const PolicyFile& file) const {
  write_atomically(path_, policy_file_text(file));
}

}  // namespace exeunt
