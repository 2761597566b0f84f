// SPDX-License-Identifier: Apache-2.0
// A refused request, and the one form of error on every route:
//   {"error": "what", "error_type": "Validation", "hint": "…", "request_id": "…"}
// The first two fields are those of text-embeddings-inference; the Open Inference Protocol has only "error".
#pragma once

#include <string>
#include <string_view>

#include "exeunt/base/error.h"
#include "exeunt/serve/access_log.h"
#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

enum class ErrorType { unhealthy, backend, overloaded, validation, tokenizer, empty };
[[nodiscard]] std::string_view name_of(ErrorType type) noexcept;

class Refusal : public Error {
 public:
  Refusal(int status, ErrorType type, const std::string& message, std::string hint = {})
      : Error(Code::usage, message, std::move(hint)), status_(status), type_(type) {}

  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] ErrorType type() const noexcept { return type_; }

 private:
  int status_;
  ErrorType type_;
};

// 422: well-formed, but cannot be done.
[[nodiscard]] Refusal invalid(const std::string& message, std::string hint = {});
[[nodiscard]] Refusal out_of_memory();    // 503
[[nodiscard]] Refusal unhealthy();        // 503
[[nodiscard]] Refusal device_failed();    // 503
[[nodiscard]] Refusal deadline_passed();  // 504

[[nodiscard]] HttpResponse refusal_response(const Refusal& refusal, std::string_view request_id);
// The response to the exception being handled. The reason of anything but a Refusal goes only to the log.
[[nodiscard]] HttpResponse exception_response(const Log& log, const std::string& request_id);

}  // namespace exeunt::serve
