// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own that goes away with it, and a short way to expect an Error.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt {

class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "exeunt-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no scratch folder");
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// For tests that write many small files: in memory, where flushing costs nothing.
inline std::filesystem::path quick_parent() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

// The Error that `act` throws; a test failure and a placeholder if it throws none.
template <class Act>
Error error_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(Code::failure, "no Error was thrown");
}

}  // namespace exeunt
