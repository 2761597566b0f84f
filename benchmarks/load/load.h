// SPDX-License-Identifier: Apache-2.0
// An open-loop load generator: requests leave when their time has come, whether or not earlier ones were answered, and
// every wait is counted from that time. One thread and epoll, so that it takes little from the server it measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/load/reply.h"

namespace exeunt::load {

struct LoadPlan {
  uint16_t port = 0;  // on 127.0.0.1
  // Requests a second, at random times (a Poisson process). 0: as many as `connections` clients get answered, each
  // asking again at once.
  double rate = 0;
  double seconds = 1;
  double warm_seconds = 0;  // before these, on the same connections, and not counted
  int connections = 64;     // at a time, at most; a request that finds none free waits, and its wait counts
  std::vector<std::string> requests = {};  // whole ones, taken in turn
  bool tls = false;                        // whoever the server is
  uint64_t seed = 1;
  double break_off = 0;    // share of requests whose sender goes away in the middle of them
  double walk_away = 0;    // share whose sender goes away before the answer
  double patience_s = 30;  // to wait for answers, once nothing more is sent
  std::function<void(size_t request, const Reply& reply)> on_reply = {};
  std::function<bool(double seconds)> tick = {};  // some ten times a second; false: nothing more is sent
};

struct LoadResult {
  std::map<int, int64_t> statuses = {};
  std::vector<float> ok_ms = {}, shed_ms = {}, late_ms = {};  // waits of 200, 429 and 504, from the time they were due
  int64_t due = 0;                                            // requests whose time came
  int64_t lost = 0;                                           // sent, and the connection ended without a whole answer
  int64_t refused = 0;                                        // no connection could be made
  int64_t unsent = 0;                                         // still waiting for a connection at the end
  int64_t given_up = 0;                                       // ours: broken off or walked away from
  double seconds = 0;                                         // from the first to the last that was due

  [[nodiscard]] int64_t count(int status) const;
  [[nodiscard]] double goodput() const { return seconds > 0 ? static_cast<double>(count(200)) / seconds : 0; }
};

[[nodiscard]] LoadResult run_load(const LoadPlan& plan);

// A POST with a JSON body.
[[nodiscard]] std::string post_request(const std::string& path, const std::string& body,
                                       const std::string& fields = {});

// What came back for any bytes on a connection of their own, until the server ended it or patience did. After so much
// silence the client says that it will send no more.
struct Exchange {
  bool connected = false, ended = false, partial = false;
  std::vector<Reply> replies = {};
};
[[nodiscard]] Exchange converse(uint16_t port, const std::string& bytes, double patience_s = 30, double silence_s = 30);

// One request on a connection of its own; status 0 if no answer came.
[[nodiscard]] Reply ask(uint16_t port, const std::string& request);

}  // namespace exeunt::load
