// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/refusal.h"

#include "exeunt/base/json.h"

namespace exeunt::serve {
namespace {

// For refusals without a hint of their own.
std::string_view default_hint(int status) noexcept {
  constexpr std::pair<int, std::string_view> hints[] = {
      {400, "send HTTP/1.1 with one JSON object in UTF-8 as its body"},
      {405, "/openapi.json lists the methods of each route"},
      {422, "/openapi.json lists the fields of each route"},
      {431, "send fewer or shorter header fields"},
      {500, "the server's log gives the reason under this request_id"},
      {503, "retry after a moment"}};
  for (const auto& [number, hint] : hints) {
    if (number == status) return hint;
  }
  return "see /openapi.json";
}

}  // namespace

std::string_view name_of(ErrorType type) noexcept {
  constexpr std::string_view names[] = {"Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"};
  return names[static_cast<size_t>(type)];
}

Refusal invalid(const std::string& message, std::string hint) {
  return {422, ErrorType::validation, message, std::move(hint)};
}

Refusal out_of_memory() {
  return {503, ErrorType::overloaded, "out of memory", "retry after a moment, or send less at once"};
}

Refusal deadline_passed() {
  return {504, ErrorType::overloaded, "the deadline passed before any exit was reached",
          "allow more time, or retry when the server is less busy"};
}

Refusal device_failed() {
  return {503, ErrorType::unhealthy, "the device that computes failed",
          "retry in a moment; the server's log gives the reason under this request_id"};
}

Refusal unhealthy() {
  return {503, ErrorType::unhealthy, "unhealthy: the engine does not answer"};
}

HttpResponse refusal_response(const Refusal& refusal, std::string_view request_id) {
  OrderedJson body;
  body["error"] = refusal.what();
  body["error_type"] = name_of(refusal.type());
  body["hint"] = refusal.hint().empty() ? default_hint(refusal.status()) : std::string_view(refusal.hint());
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
