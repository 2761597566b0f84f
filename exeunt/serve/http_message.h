// SPDX-License-Identifier: Apache-2.0
// A complete HTTP request and a response, as plain data; and a refused request, with the one form of error on every
// route:
//   {"error": "what", "error_type": "Validation", "hint": "…", "request_id": "…"}
// The first two fields are those of text-embeddings-inference; the Open Inference Protocol has only "error".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/serve/access_log.h"

namespace exeunt::serve {

class HeldBytes;

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = {};  // "GET"
  std::string path = {};    // without the query: "/v2/models/m/infer"
  HttpFields fields = {};   // names in lower case
  std::string body = {};
  std::string peer = {};  // the client's address
  bool keep_alive = true;

  // The first field of that (lower-case) name; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const noexcept;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string_view page = {};  // instead of `body`: part of the program, and sent without a copy of it
  HttpFields fields = {};
  bool close = false;                    // close the connection after it
  bool head_only = false;                // to HEAD: the body is not sent
  std::shared_ptr<HeldBytes> held = {};  // charges the body's memory until it is sent

  [[nodiscard]] std::string_view content() const noexcept { return page.empty() ? std::string_view(body) : page; }
};

[[nodiscard]] std::string_view reason_of(int status) noexcept;

// Status line and fields, with the empty line at the end.
[[nodiscard]] std::string head_text(const HttpResponse& response, bool keep_alive);

inline constexpr std::string_view kHttpWhitespace = " \t";  // what may surround a field's value

// Does the comma-separated `list` contain `word`, in any case? For Connection, Accept and the like; parameters are
// ignored.
[[nodiscard]] bool list_contains(std::string_view list, std::string_view word);

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
