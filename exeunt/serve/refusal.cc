// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/refusal.h"

#include "exeunt/base/json.h"

namespace exeunt::serve {
namespace {

// What helps where the refusal itself has no better idea.
std::string_view usual_hint(int status) noexcept {
  switch (status) {
    case 400:
      return "send HTTP/1.1 with one JSON object in UTF-8 as its body";
    case 405:
      return "/openapi.json lists the methods of each route";
    case 422:
      return "/openapi.json lists the fields of each route";
    case 431:
      return "send fewer or shorter header fields";
    case 500:
      return "the server's log has the reason under this request_id";
    case 503:
      return "retry after a moment";
    default:
      return "see /openapi.json";
  }
}

}  // namespace

std::string_view name_of(ErrorType type) noexcept {
  switch (type) {
    case ErrorType::unhealthy:
      return "Unhealthy";
    case ErrorType::backend:
      return "Backend";
    case ErrorType::overloaded:
      return "Overloaded";
    case ErrorType::validation:
      return "Validation";
    case ErrorType::tokenizer:
      return "Tokenizer";
    case ErrorType::empty:
      return "Empty";
  }
  return "Backend";
}

Refusal invalid(const std::string& message, std::string hint) {
  return {422, ErrorType::validation, message, std::move(hint)};
}

Refusal out_of_memory() {
  return {503, ErrorType::overloaded, "out of memory", "retry after a moment, or send less at once"};
}

Refusal unhealthy() {
  return {503, ErrorType::unhealthy, "unhealthy: the engine does not answer"};
}

HttpResponse refusal_response(const Refusal& refusal, std::string_view request_id) {
  OrderedJson body;
  body["error"] = refusal.what();
  body["error_type"] = name_of(refusal.type());
  body["hint"] = refusal.hint().empty() ? usual_hint(refusal.status()) : std::string_view(refusal.hint());
  body["request_id"] = request_id;
  HttpResponse response;
  response.status = refusal.status();
  response.body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  if (response.status == 429 || response.status == 503) response.fields.emplace_back("retry-after", "1");
  if (response.status == 401) response.fields.emplace_back("www-authenticate", "Bearer");
  return response;
}

HttpResponse exception_response(const Log& log, const std::string& request_id) {
  try {
    throw;
  } catch (const Refusal& refusal) {
    return refusal_response(refusal, request_id);
  } catch (const std::bad_alloc&) {
    return refusal_response(out_of_memory(), request_id);
  } catch (const std::exception& error) {
    log({.level = "error", .message = "internal error", .fields = {{"request_id", request_id}, {"why", error.what()}}});
    return refusal_response(Refusal(500, ErrorType::backend, "internal error"), request_id);
  }
}

}  // namespace exeunt::serve
