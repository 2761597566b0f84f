// SPDX-License-Identifier: Apache-2.0
// One log line per request and event, as text or JSON, and the ids that name a request there: its own, and its place in
// a distributed trace (W3C trace context). Request texts and keys are never logged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/random.h"

namespace exeunt::serve {

struct LogEntry {
  std::string_view level = "info";  // info, warn, error
  std::string_view message = {};
  // Some values come from clients: both forms escape them.
  std::vector<std::pair<std::string_view, std::string>> fields = {};
};

class Log {
 public:
  using Write = std::function<void(std::string_view line)>;
  Log(bool json, Write write) : json_(json), write_(std::move(write)) {}

  void operator()(const LogEntry& entry) const;

 private:
  bool json_;
  Write write_;
};

struct TraceContext {
  std::string trace_id = {};   // 32 hex digits
  std::string parent_id = {};  // 16 hex digits: the caller's span
  std::string span_id = {};    // ours
  std::string flags = "00";

  [[nodiscard]] std::string traceparent() const;  // "00-<trace>-<our span>-<flags>"
};

// Random ids, which must differ, not be secret. One per thread; seeded by the caller.
class IdSource {
 public:
  explicit IdSource(uint64_t seed) : random_(seed) {}
  [[nodiscard]] std::string hex(int digits);  // never all zeros

 private:
  SplitMix64 random_;
};

// Reads a `traceparent` field strictly; nothing if it is malformed, as the standard asks.
[[nodiscard]] std::optional<TraceContext> parse_traceparent(std::string_view text);

// The client's id if it is safe in headers and logs (1 to 64 of A-Z a-z 0-9 . _ : -), else a new one.
[[nodiscard]] std::string request_id_of(std::string_view from_client, IdSource& ids);

}  // namespace exeunt::serve
