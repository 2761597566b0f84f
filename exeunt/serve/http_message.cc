// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/http_message.h"

#include <new>

#include <boost/beast/http/status.hpp>

#include "exeunt/base/ascii.h"
#include "exeunt/base/json.h"

namespace exeunt::serve {

namespace http = boost::beast::http;

std::string_view HttpRequest::field(std::string_view name) const noexcept {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return {};
}

std::string_view reason_of(int status) noexcept {
  if (status == 413) return "Content Too Large";  // RFC 9110's names: Beast has the older ones
  if (status == 422) return "Unprocessable Content";
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
}

std::string head_text(const HttpResponse& response, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  if (response.status != 204 && response.status != 304) {
    if (!response.type.empty()) out += fmt::format("content-type: {}\r\n", response.type);
    out += fmt::format("content-length: {}\r\n", response.content().size());
  }
  for (const auto& [name, value] : response.fields) out += fmt::format("{}: {}\r\n", name, value);
  out += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return out;
}

bool list_contains(std::string_view list, std::string_view word) {
  for (const std::string_view item : split(list, ',')) {
    if (lower(trimmed(item.substr(0, item.find(';')), kHttpWhitespace)) == word) return true;
  }
  return false;
}

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
  const std::string_view hint = refusal.hint().empty() ? default_hint(refusal.status()) : refusal.hint();
  const OrderedJson body{
      {"error", refusal.what()}, {"error_type", name_of(refusal.type())}, {"hint", hint}, {"request_id", request_id}};
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
