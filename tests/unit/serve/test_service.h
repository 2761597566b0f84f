// SPDX-License-Identifier: Apache-2.0
// A service over a made-up engine, asked without a network.
#pragma once

#include "exeunt/serve/service.h"
#include "tests/unit/serve/fake_engine.h"

namespace exeunt::serve {

class TestService : public FakeContext {
 public:
  explicit TestService(ServiceOptions options = {}, PolicySettings policies = {})
      : service_(context(), std::move(policies), std::move(options)) {}
  ~TestService() {
    service_.end_shadows();  // they use the engine
    end_engine();
  }
  TestService(const TestService&) = delete;
  TestService& operator=(const TestService&) = delete;

  HttpResponse ask(HttpRequest request) {
    std::optional<HttpResponse> got;
    service_.handle(std::move(request), [&](HttpResponse&& response) { got = std::move(response); });
    EXPECT_TRUE(until([&] { return got.has_value(); }));
    return got.value_or(HttpResponse{});
  }
  HttpResponse get(const std::string& path, HttpFields fields = {}) {
    return ask({.method = "GET", .path = path, .fields = std::move(fields)});
  }
  HttpResponse post(const std::string& path, const std::string& body, HttpFields fields = {}) {
    return ask({.method = "POST", .path = path, .fields = std::move(fields), .body = body});
  }
  Service& service() { return service_; }

 private:
  Service service_;
};

inline std::string field_of(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.fields) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace exeunt::serve
