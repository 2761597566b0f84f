// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/http_message.h"

#include <new>

#include "exeunt/base/json.h"
#include "exeunt/serve/access_log.h"
#include "exeunt/serve/server.h"
#include "tests/fixtures/scratch.h"

namespace exeunt::serve {
namespace {

TEST(HttpMessage, WritesWholeHeads) {
  HttpResponse response{.status = 200, .body = "abc"};
  response.fields = {{"x-a", "1"}, {"x-b", "2"}};
  EXPECT_EQ(head_text(response, true),
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\nx-a: 1\r\nx-b: 2\r\n"
            "connection: keep-alive\r\n\r\n");
  response = {.status = 413, .type = {}, .body = ""};
  EXPECT_EQ(head_text(response, false),
            "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  for (const auto& [status, reason] : {std::pair(204, "No Content"), std::pair(304, "Not Modified")}) {
    response = {.status = status, .body = "abc"};
    EXPECT_EQ(head_text(response, true),
              fmt::format("HTTP/1.1 {} {}\r\nconnection: keep-alive\r\n\r\n", status, reason));
  }
  EXPECT_EQ(reason_of(422), "Unprocessable Content");
  EXPECT_EQ(reason_of(429), "Too Many Requests");
}

TEST(HttpMessage, FindsFieldsAndWordsOfLists) {
  const HttpRequest request{.fields = {{"a", "1"}, {"b", "2"}, {"b", "3"}}};
  EXPECT_EQ(request.field("b"), "2");
  EXPECT_EQ(request.field("c"), "");
  EXPECT_TRUE(list_contains("a, Text/HTML;q=0.9 ,b", "text/html"));
  EXPECT_TRUE(list_contains("b", "b"));
  EXPECT_FALSE(list_contains("text/htm, xtext/html", "text/html"));
  EXPECT_FALSE(list_contains("", "b"));
}

TEST(HttpMessage, RefusalsHaveMessageTypeHintAndFields) {
  const auto whole = [](const Refusal& refusal) {
    const HttpResponse response = refusal_response(refusal, "id");
    const Json body = Json::parse(response.body);
    EXPECT_EQ(body.size(), 4U);
    EXPECT_EQ(body["request_id"], "id");
    std::string out = fmt::format("{} {} | {} | {}", response.status, body["error_type"].get<std::string>(),
                                  body["error"].get<std::string>(), body["hint"].get<std::string>());
    for (const auto& [name, value] : response.fields) out += fmt::format(" | {}: {}", name, value);
    return out;
  };
  const auto plain = [&](int status, ErrorType type) { return whole(Refusal(status, type, "x")); };
  EXPECT_EQ(plain(400, ErrorType::empty), "400 Empty | x | send HTTP/1.1 with one JSON object in UTF-8 as its body");
  EXPECT_EQ(plain(401, ErrorType::validation), "401 Validation | x | see /openapi.json | www-authenticate: Bearer");
  EXPECT_EQ(plain(404, ErrorType::validation), "404 Validation | x | see /openapi.json");
  EXPECT_EQ(plain(405, ErrorType::validation), "405 Validation | x | /openapi.json lists the methods of each route");
  EXPECT_EQ(plain(422, ErrorType::tokenizer), "422 Tokenizer | x | /openapi.json lists the fields of each route");
  EXPECT_EQ(plain(431, ErrorType::validation), "431 Validation | x | send fewer or shorter header fields");
  EXPECT_EQ(plain(500, ErrorType::backend),
            "500 Backend | x | the server's log gives the reason under this request_id");
  EXPECT_EQ(plain(503, ErrorType::unhealthy), "503 Unhealthy | x | retry after a moment | retry-after: 1");
  EXPECT_EQ(plain(429, ErrorType::overloaded), "429 Overloaded | x | see /openapi.json | retry-after: 1");
  EXPECT_EQ(whole(invalid("m", "h")), "422 Validation | m | h");
  EXPECT_EQ(whole(out_of_memory()),
            "503 Overloaded | out of memory | retry after a moment, or send less at once | retry-after: 1");
  EXPECT_EQ(whole(deadline_passed()),
            "504 Overloaded | the deadline passed before any exit was reached | allow more time, or retry when the "
            "server is less busy");
  EXPECT_EQ(whole(device_failed()),
            "503 Unhealthy | the device that computes failed | retry in a moment; the server's log gives the reason "
            "under this request_id | retry-after: 1");
  EXPECT_EQ(whole(unhealthy()),
            "503 Unhealthy | unhealthy: the engine does not answer | retry after a moment | retry-after: 1");
}

TEST(HttpMessage, OnlyUnknownExceptionsAreLogged) {
  std::string logged;
  const Log log(false, [&](std::string_view line) { logged += line; });
  const auto status = [&](const auto& raise) {
    try {
      raise();
    } catch (...) {
      return exception_response(log, "id").status;
    }
    return 0;
  };
  EXPECT_EQ(status([] { throw Refusal(404, ErrorType::validation, "x"); }), 404);
  EXPECT_EQ(status([] { throw std::bad_alloc(); }), 503);
  EXPECT_EQ(logged, "");
  EXPECT_EQ(status([] { throw std::runtime_error("broken"); }), 500);
  EXPECT_THAT(logged, testing::EndsWith("Z error internal error request_id=id why=broken\n"));
}

TEST(ServerOptions, MustNotContradictEachOther) {
  const auto refused = [](const ServerOptions& options) {
    try {
      check_server_options(options);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::usage);
      return std::string(error.what());
    }
  };
  const ListenerOptions open{.hostname = "0.0.0.0"};
  const std::string no_key = "--hostname 0.0.0.0: this address is public, and no API key is set";
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({.listener = open}), no_key);
  EXPECT_EQ(refused({.listener = open, .api_key = "k"}), "");
  EXPECT_EQ(refused({.listener = open, .api_key_file = "f"}), "");
  EXPECT_EQ(refused({.listener = open, .insecure_no_auth = true}), "");
  EXPECT_EQ(refused({.listener = {.hostname = "0.0.0.0", .unix_socket = "s"}}), "");
  EXPECT_EQ(refused({.listener = {.tls_certificate = "c"}}), "--tls-cert and --tls-key go together");
  EXPECT_EQ(refused({.listener = {.tls_key = "k"}}), "--tls-cert and --tls-key go together");
  EXPECT_EQ(refused({.listener = {.tls_certificate = "c", .tls_key = "k"}}), "");
  EXPECT_EQ(refused({.shadow_log = "l"}), "--shadow-log needs --shadow");
  EXPECT_EQ(refused({.shadow_log = "l", .service = {.shadow = {.share = 0.5}}}), "");
  EXPECT_EQ(refused({.max_drop_under_load = 0.05}), "");
  EXPECT_EQ(refused({.policy = "full", .max_drop_under_load = 0.05}),
            "--max-drop-under-load needs the certified points; --policy replaces them");
}

}  // namespace
}  // namespace exeunt::serve
