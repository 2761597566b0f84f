// SPDX-License-Identifier: Apache-2.0
// A server as a child process: started, watched from outside, told to stop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace exeunt::load {

class ServerProcess {
 public:
  // Starts `command` and waits until its log, on stderr, says `"address":"…:PORT"`. Throws std::runtime_error.
  explicit ServerProcess(const std::vector<std::string>& command);
  ~ServerProcess();  // told to end, and killed if it does not
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
