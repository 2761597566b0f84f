// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/access_control.h"

#include <gtest/gtest.h>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {
namespace {

template <class Check>
int refusal_status(const Check& check) {
  try {
    check();
  } catch (const Refusal& refusal) {
    return refusal.status();
  }
  return 200;
}

int host_status(const std::string& host, const AccessOptions& options) {
  return refusal_status([&] { check_host({.fields = {{"host", host}}}, options); });
}

TEST(AccessControl, LoopbackServerRejectsForeignHosts) {
  const AccessOptions local{.loopback = true};
  for (const char* host :
       {"localhost", "LOCALHOST:3000", "127.0.0.1", "127.0.0.1:80", "127.1.2.3", "[::1]:3000", "model.localhost", ""}) {
    EXPECT_EQ(host_status(host, local), 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:3000", "127.0.0.1.evil.example", "localhost.evil.example",
                           "10.0.0.1", "128.0.0.1", "[::2]", "xlocalhost", "[", "0x7f.1"}) {
    EXPECT_EQ(host_status(host, local), 403) << host;
  }
  EXPECT_EQ(host_status("models.example:3000", {.hosts = {"models.example"}, .loopback = true}), 200);
  EXPECT_EQ(host_status("localhost", {.hosts = {"models.example"}, .loopback = true}), 200);
}

TEST(AccessControl, PublicServerAcceptsAnyHostUnlessListed) {
  EXPECT_EQ(host_status("anything.example", {}), 200);
  EXPECT_EQ(host_status("models.example", {.hosts = {"models.example"}}), 200);
  EXPECT_EQ(host_status("localhost", {.hosts = {"models.example"}}), 403);
}

TEST(AccessControl, RejectsForeignOrigins) {
  const auto status = [](const std::string& origin, const AccessOptions& options) {
    return refusal_status([&] { check_origin({.fields = {{"host", "localhost:3000"}, {"origin", origin}}}, options); });
  };
  for (const char* ours : {"", "http://localhost:3000", "https://localhost:3000"}) EXPECT_EQ(status(ours, {}), 200);
  for (const char* other : {"http://localhost:3001", "http://localhost", "https://evil.example", "null", "file://",
                            "http://localhost:3000.evil.example"}) {
    EXPECT_EQ(status(other, {}), 403) << other;
    EXPECT_EQ(status(other, {.origins = {"*"}}), 200) << other;
    EXPECT_EQ(status(other, {.origins = {other}}), 200) << other;
  }
}

TEST(AccessControl, RejectsContentTypeOtherThanJson) {
  const auto status = [](HttpFields fields) {
    return refusal_status([&] { check_content_type({.fields = std::move(fields)}); });
  };
  for (const char* type : {"application/json", "Application/JSON", "application/json; charset=utf-8"}) {
    EXPECT_EQ(status({{"content-type", type}}), 200) << type;
  }
  for (const char* type : {"text/plain", "text/plain;a=b, application/json", "application/json, text/plain",
                           "application/jsonx", "application/x-www-form-urlencoded", ";application/json"}) {
    EXPECT_EQ(status({{"content-type", type}}), 415) << type;
  }
  EXPECT_EQ(status({}), 200);                                     // a program
  EXPECT_EQ(status({{"origin", "http://localhost:3000"}}), 415);  // a page
}

}  // namespace
}  // namespace exeunt::serve
