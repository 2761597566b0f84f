// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/machine.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "exeunt/base/number.h"
#include "exeunt/base/process.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The first word, if it is a number.
std::optional<uint64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return number_of<uint64_t>(text.substr(0, text.find(' ')));
}

}  // namespace

Memory memory() {
  Memory out;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const auto value = number_in(std::string_view(line).substr(std::min(line.find(':') + 1, line.size())));
    if (value && line.starts_with("MemTotal:")) out.total = *value * 1024;
    if (value && line.starts_with("MemAvailable:")) out.available = *value * 1024;
  }
  const auto limit = number_in(first_line("/sys/fs/cgroup/memory.max"));  // "max" is no number
  if (limit && *limit < out.total) out.limit = limit;
  return out;
}

std::optional<double> processor_limit() {
  std::istringstream line(first_line("/sys/fs/cgroup/cpu.max"));  // "200000 100000", or "max 100000"
  double quota = 0, period = 0;
  if (line >> quota >> period && period > 0) return quota / period;
  return std::nullopt;
}

int cores() {
  std::set<std::string> siblings;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/cpu", ignored)) {
    const std::string line = first_line(entry.path() / "topology" / "thread_siblings_list");
    if (!line.empty()) siblings.insert(line);
  }
  return static_cast<int>(siblings.size());
}

std::string huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  const size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

std::optional<uint64_t> free_bytes(const fs::path& folder) {
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) return std::nullopt;
  return static_cast<uint64_t>(found.f_bavail) * found.f_frsize;
}

fs::path program_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::optional<std::string> output_of(const std::vector<std::string>& words, int seconds) {
  std::optional<ChildEnd> end = run_child(words, {.keep_output = true, .alone = true, .seconds = seconds});
  if (!end || end->status != 0) return std::nullopt;
  return std::move(end->output);
}

}  // namespace exeunt
