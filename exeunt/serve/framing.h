// SPDX-License-Identifier: Apache-2.0
// Parses the bytes of a connection into requests, without a socket. The head must pass check_head(); then Boost.Beast
// parses it and the body, each chunk after a strict check of its size. All sizes are bounded.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

inline constexpr size_t kMaxHeadBytes = 8192;
inline constexpr size_t kMaxFields = 100;

// Checks a request's header before it is parsed. Request smuggling lives on headers that two parsers read differently,
// so whatever RFC 9112 leaves open is rejected. `head` ends in the empty line. Throws Refusal: 400, or 431 for too many
// fields.
void check_head(std::string_view head);

struct FramingLimits {
  size_t body_bytes = 2'000'000;
  int chunks = 4096;  // per body; tiny chunks cost more than their bytes
};

class RequestReader {
 public:
  explicit RequestReader(const FramingLimits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  enum class Stage { idle, head, body, complete };  // idle: no byte of a request yet

  // Consumes bytes up to the end of the current head or body and returns how many. After a Refusal (400, 413, 431) the
  // connection must be closed.
  size_t feed(std::string_view bytes);

  [[nodiscard]] Stage stage() const noexcept;
  // True once per request with "Expect: 100-continue" whose body is still to come.
  [[nodiscard]] bool take_expect_continue() noexcept;
  // The head of a request whose body is still to come: once, right after the head's end; else null.
  [[nodiscard]] HttpRequest* take_head() noexcept;
  [[nodiscard]] size_t declared_bytes() const noexcept;  // of a body to come, by Content-Length; 0 if it is in chunks
  [[nodiscard]] size_t body_bytes() const noexcept;      // that have come
  // The request; only at stage `complete`, which becomes `idle`.
  [[nodiscard]] HttpRequest take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exeunt::serve
