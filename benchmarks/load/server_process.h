// SPDX-License-Identifier: Apache-2.0
// A server as a child process: started, watched from outside, stopped.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/types.h>

namespace exeunt::load {

// A server that ended before it listened.
struct NotStarted : std::runtime_error {
  NotStarted(int end, const std::string& text) : runtime_error("the server did not start: " + text), status(end) {}
  int status;  // -1: a signal ended it, or we did
};

class ServerProcess {
 public:
  // Starts `command`, with these variables beside our own, and waits until its log, on stderr, says
  // `"address":"…:PORT"`. Throws NotStarted.
  explicit ServerProcess(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& variables = {});
  ~ServerProcess();  // asked to end, and killed if it does not
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] uint16_t port() const noexcept { return port_; }
  void signal(int number) const;
  // The exit status; -1 for one that was killed or did not end in time.
  int wait(double patience_s = 60);

  [[nodiscard]] double resident_mib() const;
  [[nodiscard]] double cpu_seconds() const;      // of all threads
  [[nodiscard]] double network_seconds() const;  // of the main thread
  [[nodiscard]] int open_files() const;

 private:
  pid_t child_ = -1;
  int log_ = -1;
  uint16_t port_ = 0;
};

}  // namespace exeunt::load
