// SPDX-License-Identifier: Apache-2.0
// What docs/reliability.md promises of the server, each as one trial that is run from outside and writes down its
// figures.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/load/figures.h"

namespace exeunt::load {

struct Setting {
  std::vector<std::string> server = {};    // its command; it logs `"address":"…:PORT"`
  std::vector<std::string> requests = {};  // one per text
  double seconds = 10;                     // of each measured part
  double rate = 0;                         // `soak`, `attack`: requests a second; 0 = 0.7 of what it can do, or half
  int trials = 100;
  int64_t count = 10'000;   // mutated requests, samples, allocations
  std::string drop = "5%";  // `degrade`: as --max-drop-under-load
  std::string shim = {};    // `memory`: the library that makes allocations fail
  int sockets = 64;         // `attack`: of the attackers
  std::string attack = {};  // `attack`, `keyless`: the only kind to play
  bool tls = false;         // `attack`, `keyless`: all clients speak TLS
  double p99_ms = 250;      // `peak`: the wait that 99 in 100 must keep within
};

// This server cannot be tried in this way; the program then ends with kNotTried.
struct CannotTry : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline constexpr int kNotTried = 77;  // "skipped" for ctest

void overload(const Setting& setting, Record& record);  // three times what it can do
void drain(const Setting& setting, Record& record);     // SIGTERM under load, again and again
void slow(const Setting& setting, Record& record);      // 1,000 sockets that say almost nothing
void attack(const Setting& setting, Record& record);    // clients without a key who mean harm
void keyless(const Setting& setting, Record& record);   // 1,024 of them: what they make it hold
void mutate(const Setting& setting, Record& record);   // damaged requests, and those that two programs read in two ways
void soak(const Setting& setting, Record& record);     // for a long time, with clients that leave
void company(const Setting& setting, Record& record);  // answers alone and under load
void overhead(const Setting& setting, Record& record);  // what HTTP costs beside the model
void peak(const Setting& setting, Record& record);      // requests a second that keep p99
void deadline(const Setting& setting, Record& record);  // more than it can do, and little time for each
void degrade(const Setting& setting,
             Record& record);                        // half as much again as it can do, with the controller and without
void start(const Setting& setting, Record& record);  // how soon it is ready, and how soon it says that it cannot be
void memory(const Setting& setting, Record& record);  // every allocation fails once
void keys(const Setting& setting, Record& record);    // does the time of a wrong key tell where it is wrong?

// Requests a second of 16 clients who ask again at once.
[[nodiscard]] double capacity_of(const Setting& setting, uint16_t port, double seconds);

}  // namespace exeunt::load
