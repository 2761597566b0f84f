// SPDX-License-Identifier: Apache-2.0
// Names of a request: an id of our own or the client's, and its place in a distributed trace (W3C trace context).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exeunt::serve {

struct TraceContext {
  std::string trace_id = {};   // 32 hex digits
  std::string parent_id = {};  // 16 hex digits: the caller's span
  std::string span_id = {};    // ours
  std::string flags = "00";

  [[nodiscard]] std::string traceparent() const;  // "00-<trace>-<our span>-<flags>"
};

// Draws ids. One per thread; seeded by the caller, so that tests can know them.
class IdSource {
 public:
  explicit IdSource(uint64_t seed) : state_(seed) {}
  [[nodiscard]] std::string hex(int digits);  // never all zeros

 private:
  uint64_t next() noexcept;
  uint64_t state_;
};

// Reads a `traceparent` field strictly; nothing if it is malformed, as the standard asks.
[[nodiscard]] std::optional<TraceContext> parse_traceparent(std::string_view text);

// The client's id where it is harmless in a header and a log (1 to 64 of A-Z a-z 0-9 . _ : -), else a new one.
[[nodiscard]] std::string request_id_of(std::string_view from_client, IdSource& ids);

}  // namespace exeunt::serve
