// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostOutput = size_t{1} << 24;

// Reads until the writer is done; nothing if the time is over before, or there is too much.
std::optional<std::string> read_all(int descriptor, int seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::string out;
  std::array<char, 4096> block{};
  for (;;) {
    if (seconds > 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd wait{.fd = descriptor, .events = POLLIN, .revents = 0};
      const int ready = left <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return std::nullopt;
    }
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return out;
    out.append(block.data(), static_cast<size_t>(count));
    if (out.size() > kMostOutput) return std::nullopt;
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long total = 0, resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &total, &resident);
  (void)std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::optional<ChildEnd> run_child(const std::vector<std::string>& words, const ChildOptions& options) {
  check(!words.empty() && (options.seconds == 0 || options.keep_output), "a limit of time needs output to wait for");
  std::array<int, 2> ends{-1, -1};
  if (options.keep_output && ::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (options.keep_output) ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (options.alone) {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const bool started = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), ::environ) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  std::optional<std::string> output = std::string();
  if (options.keep_output) {
    ::close(ends[1]);
    if (started) output = read_all(ends[0], options.seconds);
    ::close(ends[0]);
  }
  if (!started) return std::nullopt;
  if (!output) ::kill(child, SIGKILL);
  const int status = wait_for(child);
  if (!output) return std::nullopt;
  return ChildEnd{.status = status, .output = std::move(*output)};
}

}  // namespace exeunt
