// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/refusal.h"

#include "exeunt/base/json.h"

namespace exeunt::serve {

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

HttpResponse refusal_response(const Refusal& refusal, std::string_view request_id) {
  OrderedJson body;
  body["error"] = refusal.what();
  body["error_type"] = name_of(refusal.type());
  if (!refusal.hint().empty()) body["hint"] = refusal.hint();
  body["request_id"] = request_id;
  HttpResponse response;
  response.status = refusal.status();
  response.body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  if (response.status == 429 || response.status == 503) response.fields.emplace_back("retry-after", "1");
  if (response.status == 401) response.fields.emplace_back("www-authenticate", "Bearer");
  return response;
}

}  // namespace exeunt::serve
