// SPDX-License-Identifier: Apache-2.0
// Requests over a socket, to a server whose engine is played. The input is a list of choices, not bytes of HTTP: which
// routes, fields and framing, what JSON, where the stream is cut, and whether the client reads. So nearly every input
// gets past the header, which random bytes hardly ever do.
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "exeunt/serve/listener.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/serve/fake_engine.h"
#include "tests/unit/serve/raw_client.h"

namespace exeunt::serve {
namespace {

constexpr std::string_view kKey = "a-key-of-the-fuzzer";

// One server for all inputs, as for all clients.
class Server {
 public:
  Server()
      : engine_(2),
        log_(false, {}),
        listener_({.port = 0,
                   .refusals_per_second = 0,  // all at once: most inputs are refused
                   .max_connections = 64,
                   .framing = {.body_bytes = 4096, .chunks = 64},
                   .signals = false}),
        service_({fake_model(), engine_.runner(),
                  [this](std::function<void()> work) { listener_.post(std::move(work)); }, log_},
                 {}, {.access = {.loopback = true}, .log_requests = false}) {
    service_.use_keys(ApiKeys({std::string(kKey)}));
    thread_ = std::thread([this] { (void)listener_.run(service_, log_, {}); });
  }
  // At the end of the process, before the network library's own statics are gone.
  ~Server() {
    listener_.stop();
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  [[nodiscard]] uint16_t port() const { return listener_.port(); }

 private:
  FakeEngine engine_;
  Log log_;
  Listener listener_;
  Service service_;
  std::thread thread_;
};

// The input's bytes as choices; zeros when there are no more.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  [[nodiscard]] bool any() const { return at_ < size_; }
  uint8_t byte() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }
  size_t below(size_t limit) { return byte() % limit; }
  bool often() { return byte() % 8 != 7; }  // what is usual, as a rule
  template <size_t count>
  std::string_view of(const std::array<std::string_view, count>& all) {
    return all[below(count)];
  }
  std::string bytes() {
    const size_t count = std::min<size_t>(byte(), size_ - std::min(at_, size_));
    std::string out(reinterpret_cast<const char*>(data_ + at_), count);
    at_ += count;
    return out;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

constexpr std::array<std::string_view, 28> kNames = {"inputs",      "query",
                                                     "texts",       "truncate",
                                                     "exit",        "policy",
                                                     "max_layers",  "deadline_ms",
                                                     "details",     "model",
                                                     "input",       "raw_scores",
                                                     "return_text", "id",
                                                     "name",        "shape",
                                                     "datatype",    "data",
                                                     "outputs",     "parameters",
                                                     "input_ids",   "attention_mask",
                                                     "text",        "truncation_direction",
                                                     "text_pair",   "top_k",
                                                     "options",     "function_to_apply"};
constexpr std::array<std::string_view, 13> kValues = {
    "1",         "-1",       "0.5",   "1e999",           "true",       "null", "\"a\"", "\"INT64\"",
    "\"BYTES\"", "\"full\"", "[1,2]", "\"entropy:0.5\"", "\"sigmoid\""};

std::string json(Choices& choices, int depth = 0) {
  const size_t kind = depth > 5 ? 3 : choices.below(8);
  std::string out;
  if (kind == 0 || kind == 1) {
    out = kind == 0 ? "{" : "[";
    const size_t count = choices.below(6);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out += ',';
      if (kind == 0) out += '"' + std::string(choices.of(kNames)) + "\":";
      out += json(choices, depth + 1);
    }
    return out + (kind == 0 ? '}' : ']');
  }
  if (kind == 2) {  // many of the same
    const std::string one = json(choices, depth + 1);
    out = "[" + one;
    for (size_t i = choices.byte(); i > 0 && out.size() < 2000; --i) out += ',' + one;
    return out + ']';
  }
  return kind == 4 ? '"' + choices.bytes() + '"' : std::string(choices.of(kValues));
}

std::string body_of(Choices& choices) {
  constexpr std::array<std::string_view, 6> good = {
      R"({"inputs":"a text"})",
      R"({"inputs":[["a"],["b","c"]],"exit":{"details":true,"max_layers":2}})",
      R"({"model":"fake","input":["a","b"]})",
      R"({"query":"q","texts":["a","b"]})",
      R"({"inputs":[{"text":"a","text_pair":"b"}],"parameters":{"top_k":2,"function_to_apply":"none"}})",
      R"({"id":"1","inputs":[{"name":"input_ids","shape":[1,3],"datatype":"INT64","data":[[1,2,3]]}]})"};
  switch (choices.below(4)) {
    case 0:
      return std::string(choices.of(good));
    case 1:
      return "{\"" + std::string(choices.of(kNames)) + "\":" + json(choices) + ",\"inputs\":" + json(choices) + "}";
    case 2:
      return json(choices);
    default:
      return choices.bytes();
  }
}

std::string chunked(Choices& choices, std::string_view body) {
  std::string out;
  while (!body.empty()) {
    const std::string_view piece = body.substr(0, 1 + choices.byte());
    body.remove_prefix(piece.size());
    out += fmt::format("{:x}{}\r\n{}\r\n", piece.size(), choices.often() ? "" : ";x=y", piece);
  }
  return out + (choices.often() ? "0\r\n\r\n" : "0\r\nX: y\r\n\r\n");
}

std::string request_of(Choices& choices) {
  constexpr std::array<std::string_view, 6> methods = {"POST", "POST", "GET", "HEAD", "OPTIONS", "DELETE"};
  constexpr std::array<std::string_view, 14> paths = {"/predict",
                                                      "/classify",
                                                      "/rerank",
                                                      "/v2/models/fake/infer",
                                                      "/v2/models/fake/versions/1/infer",
                                                      "/health",
                                                      "/info",
                                                      "/metrics",
                                                      "/",
                                                      "/playground.js",
                                                      "/v2/models/fake",
                                                      "/openapi.json",
                                                      "/v1/models",
                                                      "/invocations"};
  constexpr std::array<std::string_view, 14> fields = {
      "Content-Type: application/json",
      "Content-Type: text/plain",
      "Content-Type: application/json; charset=utf-8",
      "Origin: https://evil.example",
      "Origin: http://localhost",
      "Connection: close",
      "Connection: keep-alive",
      "Expect: 100-continue",
      "X-Request-Timeout-Ms: 1",
      "X-Request-Id: an-id",
      "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      "Accept: text/html",
      "Host: other",
      "Authorization: Bearer wrong"};
  std::string out(choices.of(methods));
  out += ' ' + std::string(choices.of(paths)) + (choices.often() ? "" : "?" + choices.bytes()) +
         (choices.often() ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
  if (choices.often()) out += "Host: localhost\r\n";
  if (choices.often()) out += fmt::format("Authorization: Bearer {}\r\n", kKey);
  for (size_t i = choices.below(4); i > 0; --i) out += std::string(choices.of(fields)) + "\r\n";
  if (!choices.often()) out += "X-" + choices.bytes() + "\r\n";
  const std::string body = body_of(choices);
  switch (choices.below(6)) {
    case 0:
      return out + "\r\n";
    case 1:
      return out + "Transfer-Encoding: chunked\r\n\r\n" + chunked(choices, body);
    case 2:  // more or less than it says
      return out + fmt::format("Content-Length: {}\r\n\r\n{}", choices.byte() * 20, body);
    default:
      return out + fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
  }
}

void converse(uint16_t port, Choices& choices) {
  const bool reads = choices.often();
  std::string all;
  size_t requests = 0;
  do {
    all += request_of(choices);
  } while (choices.any() && ++requests < 4);
  if (choices.often()) all += "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (!choices.often()) all.resize(all.size() - std::min<size_t>(all.size(), choices.byte()));
  RawClient client(port);
  check(client.connected(), "the server listens");
  const size_t cut = choices.often() ? all.size() : std::min<size_t>(all.size(), 16 * choices.byte());
  client.send(std::string_view(all).substr(0, cut));
  client.send(std::string_view(all).substr(cut));
  if (!reads) return;
  // A stream that was cut may leave the server waiting for more: after a short silence the client stops sending.
  if (!client.ends(5)) client.stop_sending();
  check(client.ends(), "the server ends what its client has ended");
  const std::string_view got = client.unparsed();
  check(got.empty() || got.starts_with("HTTP/1.1 "), "what comes back is HTTP");
  check(got.find("HTTP/1.1 500") == std::string_view::npos, "no request breaks the server");
}

// What an honest client gets, whatever others did.
void check_alive(uint16_t port) {
  RawClient client(port);
  const std::string body = R"({"inputs":"hello there"})";
  client.send(
      fmt::format("POST /predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n"
                  "Content-Length: {}\r\n\r\n{}",
                  kKey, body.size(), body));
  const auto response = client.receive();
  check(response && (response->status == 200 || response->status == 429), "an honest client is answered");
}

}  // namespace
}  // namespace exeunt::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt::serve;
  static const Server server;
  static int inputs = 0;
  Choices choices(data, size);
  converse(server.port(), choices);
  if (++inputs % 64 == 0) check_alive(server.port());
  return 0;
}
