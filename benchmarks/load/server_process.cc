// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/server_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace exeunt::load {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kStartSeconds = 120;

uint16_t port_in(const std::string& log) {
  const std::string mark = "\"address\":\"";
  const size_t at = log.find(mark);
  const size_t end = at == std::string::npos ? at : log.find('"', at + mark.size());
  if (end == std::string::npos) return 0;
  return static_cast<uint16_t>(std::stoi(log.substr(log.rfind(':', end) + 1)));
}

// Nanoseconds that a thread has run: the first number of its schedstat.
double run_seconds(const std::filesystem::path& schedstat) {
  double nanoseconds = 0;
  std::ifstream(schedstat) >> nanoseconds;
  return nanoseconds / 1e9;
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& command,
                             const std::map<std::string, std::string>& variables) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  child_ = ::fork();
  if (child_ == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  log_ = ends[0];
  std::string log;
  const auto limit = Clock::now() + std::chrono::seconds(kStartSeconds);
  while (port_ == 0 && Clock::now() < limit) {
    pollfd wait{log_, POLLIN, 0};
    char bytes[4096];
    const ssize_t got = ::poll(&wait, 1, 1000) > 0 ? ::read(log_, bytes, sizeof bytes) : -1;
    if (got == 0) break;
    if (got > 0) log.append(bytes, static_cast<size_t>(got));
    port_ = port_in(log);
  }
  if (port_ == 0) {
    const int status = wait(5);
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::close(log_);
    throw NotStarted(status, log);
  }
  // Nobody reads its log from here on; a full pipe must not stop it, so it writes none per request.
  ::fcntl(log_, F_SETFL, O_NONBLOCK);
}

ServerProcess::~ServerProcess() {
  signal(SIGTERM);
  if (child_ > 0 && wait(5) < 0 && child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(log_);
}

void ServerProcess::signal(int number) const {
  if (child_ > 0) ::kill(child_, number);
}

int ServerProcess::wait(double patience_s) {
  const auto limit = Clock::now() + std::chrono::duration<double>(patience_s);
  int status = 0;
  while (::waitpid(child_, &status, WNOHANG) == 0) {
    if (Clock::now() > limit) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

double ServerProcess::resident_mib() const {
  std::ifstream file("/proc/" + std::to_string(child_) + "/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double ServerProcess::cpu_seconds() const {
  double sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(child_) + "/task")) {
    sum += run_seconds(task.path() / "schedstat");
  }
  return sum;
}

double ServerProcess::network_seconds() const {
  const std::string id = std::to_string(child_);
  return run_seconds("/proc/" + id + "/task/" + id + "/schedstat");
}

int ServerProcess::open_files() const {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(child_) + "/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

}  // namespace exeunt::load
