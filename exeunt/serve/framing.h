// SPDX-License-Identifier: Apache-2.0
// Cuts the bytes of a connection into requests: pure, without a socket. The head is held to head_check.h and
// then read by Boost.Beast; bodies, plain and chunked, are cut here. Sizes are bounded at every step.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

struct FramingLimits {
  size_t body_bytes = 2'000'000;
  int chunks = 4096;  // of one body; a body of tiny chunks costs more than its bytes
};

class RequestReader {
 public:
  explicit RequestReader(const FramingLimits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  enum class Stage { idle, head, body, whole };  // idle: not a byte of a request has come

  // Takes bytes up to the end of the request under way and returns how many. Throws Refusal (400, 413, 431); the
  // connection cannot be used any more then.
  size_t feed(std::string_view bytes);

  [[nodiscard]] Stage stage() const noexcept;
  // True once per request that says "Expect: 100-continue" and whose body is still to come.
  [[nodiscard]] bool take_expectation() noexcept;
  // The request; only at stage `whole`, which becomes `idle`.
  [[nodiscard]] HttpRequest take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exeunt::serve
