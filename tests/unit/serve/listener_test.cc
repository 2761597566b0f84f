// SPDX-License-Identifier: Apache-2.0
// The server over real sockets, with a fake engine.
#include "exeunt/serve/listener.h"

#include <cstdlib>
#include <random>
#include <span>

#include <malloc.h>

#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/running_server.h"
#include "tests/unit/serve/smuggling.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

TEST(ListenerTest, AnswersPipelinedRequestsInOrder) {
  RunningServer server;
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += post_text("/predict", kBody, "X-Request-Id: r" + std::to_string(i) + "\r\n");
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 20; ++i) {
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value()) << i;
    EXPECT_EQ(response->status, 200);
    EXPECT_NE(response->head.find("x-request-id: r" + std::to_string(i) + "\r\n"), std::string::npos);
  }
  ASSERT_TRUE(client.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_TRUE(client.receive()->closes());
  EXPECT_TRUE(client.ends());
}

TEST(ListenerTest, RejectsAmbiguousHeadAndCloses) {
  RunningServer server;
  for (const SmugglingCase& c : smuggling_heads()) {
    RawClient client(server.port());
    // The request hidden behind the head must never be answered.
    client.send(c.bytes + "0\r\n\r\nGET /info HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value()) << c.name;
    EXPECT_EQ(response->status, 400) << c.name;
    EXPECT_TRUE(response->closes()) << c.name;
    EXPECT_TRUE(Json::parse(response->body).contains("request_id")) << c.name;
    EXPECT_FALSE(client.receive().has_value()) << c.name;
  }
  expect_alive(server.port());
}

TEST(ListenerTest, AnswersBadBodyAndServesNextClient) {
  RunningServer server({.listener = {.framing = {.body_bytes = 200'000}}});
  struct Case {
    std::string bytes;
    int status;
  };
  const std::string deep = "{\"inputs\":" + std::string(100'000, '[');
  std::string tiny = "POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 6000; ++i) tiny += "1\r\n{\r\n";
  std::string endless = "POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 5; ++i) endless += "10000\r\n" + std::string(65536, 'a') + "\r\n";
  for (const Case& c :
       {Case{post_text("/predict", "{"), 400}, Case{post_text("/predict", deep), 400},
        Case{post_text("/predict", "{\"inputs\":\"\xff\"}"), 400}, Case{post_text("/predict", "{}"), 422},
        Case{post_text("/predict", std::string(200'001, ' ')), 413}, Case{tiny, 400}, Case{endless, 413},
        Case{post_text("/predict", std::string(200'000, ' ')), 400},
        Case{post_text("/predict", kBody, "Content-Type: text/csv\r\n"), 415},
        Case{"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404}, Case{"DELETE /predict HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        Case{"GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(20'000, 'a') + "\r\n\r\n", 431}}) {
    RawClient client(server.port());
    client.send(c.bytes);
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value()) << c.bytes.substr(0, 60);
    EXPECT_EQ(response->status, c.status) << c.bytes.substr(0, 60);
    EXPECT_EQ(response->body.find("exeunt/"), std::string::npos);
  }
  expect_alive(server.port());
}

TEST(ListenerTest, MutatedRequestsGetNo5xx) {
  RunningServer server({.listener = {.head_timeout = 200ms, .body_timeout = 200ms}});
  std::mt19937_64 random(20240501);
  const std::vector<std::string> seeds = {
      post_text("/predict", R"({"inputs":[["a"],["b","c"]],"truncate":true,"exit":{"details":true,"max_layers":2}})"),
      post_text("/classify", R"({"model":"fake","input":["a","b"]})"),
      post_text("/v2/models/fake/infer",
                R"({"id":"1","inputs":[{"name":"input_ids","shape":[1,3],"datatype":"INT64","data":[[1,2,3]]}]})"),
      "POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n14\r\n{\"inputs\":\"chunked\"}\r\n0\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n"};
  const int rounds = std::getenv("EXEUNT_MUTATIONS") != nullptr ? std::atoi(std::getenv("EXEUNT_MUTATIONS")) : 600;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (uint64_t change = 1 + random() % 4; change > 0 && !bytes.empty(); --change) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 2:
          bytes.insert(at, 1 + random() % 3, static_cast<char>(random()));
          break;
        case 3:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
          break;
        default:
          bytes.resize(at);
      }
    }
    RawClient client(server.port());
    client.send(bytes + "\r\n\r\n");
    // Most incomplete requests are left to their timeout.
    const auto response = client.receive(random() % 50 == 0 ? 2000 : 30);
    if (response) {
      EXPECT_LT(response->status, 500) << bytes;
    }
  }
  expect_alive(server.port());
}

// Clients that stop in the middle of a head, in the middle of a body, and before either.
const std::vector<std::string> kBeginnings = {"POST /predict HT", post_text("/predict", kBody).substr(0, 60), ""};

std::vector<std::unique_ptr<RawClient>> slow_clients(uint16_t port, std::span<const std::string> beginnings) {
  std::vector<std::unique_ptr<RawClient>> out;
  for (size_t i = 0; i < 100; ++i) {
    out.push_back(std::make_unique<RawClient>(port));
    out.back()->send(beginnings[i % beginnings.size()]);
  }
  return out;
}

TEST(ListenerTest, AnswersOthersBesideSlowClients) {
  RunningServer server({.listener = {.head_timeout = 1h, .body_timeout = 1h, .idle_timeout = 1h}});
  const auto slow = slow_clients(server.port(), kBeginnings);
  for (int i = 0; i < 10; ++i) expect_alive(server.port());
  EXPECT_EQ(server.ask<uint64_t>([](Service& s) { return s.metrics().connections; }), 110U);
}

TEST(ListenerTest, TimesOutSlowClients) {
  RunningServer heads({.listener = {.head_timeout = 50ms, .body_timeout = 1h, .idle_timeout = 1h}});
  RunningServer bodies({.listener = {.head_timeout = 1h, .body_timeout = 50ms, .idle_timeout = 1h}});
  for (const auto& [port, beginning] : {std::pair(heads.port(), 0), std::pair(bodies.port(), 1)}) {
    for (const auto& client : slow_clients(port, std::span(kBeginnings).subspan(beginning, 1))) {
      const auto response = client->receive();
      ASSERT_TRUE(response.has_value());
      EXPECT_EQ(response->status, 408);
      EXPECT_TRUE(client->ends());
    }
  }
  RunningServer impatient({.listener = {.idle_timeout = 50ms}});
  for (const auto& client : slow_clients(impatient.port(), std::span(kBeginnings).last(1))) {
    EXPECT_FALSE(client->receive().has_value()) << "an idle connection is closed without a response";
    EXPECT_TRUE(client->ends());
  }
}

TEST(ListenerTest, ClosesLongestWaitingAtConnectionLimit) {
  RunningServer server({.listener = {.max_connections = 8}});
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<RawClient>(server.port()));
  expect_alive(server.port());
  EXPECT_LE(server.ask<size_t>([](Service& s) { return s.metrics().connections_open; }), 8U);
  EXPECT_TRUE(idle[0]->ends());  // the one that had waited longest
}

TEST(ListenerTest, ClosesConnectionsWithKeyLastAtConnectionLimit) {
  RunningServer server({.listener = {.max_connections = 8}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  const std::string key = "Authorization: Bearer a-good-key\r\n", whole = post_text("/predict", kBody, key);
  const auto status = [](RawClient& client, const std::string& request) {
    client.send(request);
    const auto response = client.receive();
    return response ? response->status : 0;
  };
  RawClient posts(server.port()), gets(server.port()), sends(server.port());
  const std::string info = "GET /info HTTP/1.1\r\nHost: x\r\n" + key + "\r\n";
  EXPECT_EQ(status(posts, whole), 200);
  EXPECT_EQ(status(gets, info), 200);
  sends.send(std::string_view(whole).substr(0, whole.size() - 1));
  while (server.ask<size_t>([](Service& s) { return s.bytes_held(); }) == 0) std::this_thread::sleep_for(1ms);
  std::vector<std::unique_ptr<RawClient>> others;
  for (int i = 0; i < 20; ++i) others.push_back(std::make_unique<RawClient>(server.port()));
  while (server.ask<uint64_t>([](Service& s) { return s.metrics().connections; }) < 23)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(status(posts, whole), 200);
  EXPECT_EQ(status(gets, info), 200);
  EXPECT_EQ(status(sends, whole.substr(whole.size() - 1)), 200);
  // Where all have shown a key, the one that has waited longest still gives way.
  for (int i = 0; i < 6; ++i) {
    others.push_back(std::make_unique<RawClient>(server.port()));
    EXPECT_EQ(status(*others.back(), whole), 200);
  }
  EXPECT_TRUE(posts.ends());
}

TEST(ListenerTest, ClosesClientThatNeverReadsAtConnectionLimit) {
  RunningServer server({.listener = {.write_timeout = 1h, .max_connections = 8}});
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
  std::vector<std::unique_ptr<RawClient>> stuck;
  for (int i = 0; i < 8; ++i) {
    stuck.push_back(std::make_unique<RawClient>(server.port()));
    stuck.back()->send_some(many);
  }
  // Until each of them has its window full, and for the time a client may stall.
  std::optional<RawResponse> response;
  for (int i = 0; i < 100 && !response; ++i) {
    std::this_thread::sleep_for(100ms);
    RawClient honest(server.port());
    honest.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    response = honest.receive(1000);
  }
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
}

// No byte of the body is sent: the response is to the head.
TEST(ListenerTest, RejectsBodyWithoutKeyAtHead) {
  RunningServer server;
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  for (const char* rest : {"", "Expect: 100-continue\r\n"}) {
    RawClient client(server.port());
    client.send("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n" + std::string(rest) + "\r\n");
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 401);
    EXPECT_TRUE(response->closes());
  }
  EXPECT_EQ(server.ask<size_t>([](Service& s) { return s.in_flight(); }), 0U);
}

// No key is needed for these routes, so nobody may fill the memory for bodies there, nor hold up a drain.
TEST(ListenerTest, RejectsBodyOnPublicRoutesAtHead) {
  RunningServer server({.listener = {.refusals_per_second = 0}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  for (const std::string method : {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}) {
    for (const char* path : {"/health", "/ready", "/ping", "/v2/health/live", "/v2/health/ready", "/", "/favicon.ico",
                             "/playground.css", "/playground.js"}) {
      for (const char* body : {"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n{"}) {
        RawClient client(server.port());
        client.send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + body);
        const auto response = client.receive();
        ASSERT_TRUE(response && response->status == 400 && response->closes()) << method << path;
        EXPECT_THAT(response->body, testing::HasSubstr("only POST may have a body"));
      }
    }
  }
  EXPECT_EQ(server.ask<size_t>([](Service& s) { return s.bytes_held(); }), 0U);
}

// Memory of the process for clients without a key, however much they send; without the kernel's buffers.
TEST(ListenerTest, LimitsMemoryOfKeylessConnections) {
  constexpr size_t kConnections = 100, kMost = 16 << 10;  // bytes for each
  RunningServer server({.listener = {.head_timeout = 1h, .idle_timeout = 1h}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  const std::string head = "POST /predict HTTP/1.1\r\nHost: x\r\n";
  std::string pages;
  for (int i = 0; i < 200; ++i) pages += "GET /playground.js HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const std::string& bytes :
       {std::string(), head + "X: " + std::string(7000, 'x'), pages,
        head + "Content-Length: 2000000\r\n\r\n" + std::string(100'000, ' '),
        "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + std::string(100'000, ' ')}) {
    std::vector<std::unique_ptr<RawClient>> clients(kConnections);
    const size_t before = ::mallinfo2().uordblks;
    for (auto& client : clients) client = std::make_unique<RawClient>(server.port());
    for (auto& client : clients) client->send_some(bytes);
    for (int i = 0; i < 20; ++i) (void)server.ask<size_t>([](Service& s) { return s.in_flight(); });
    const size_t after = ::mallinfo2().uordblks;
    EXPECT_LE(after, before + kConnections * kMost) << bytes.substr(0, 40);
  }
}

// What was asked and answered is not kept until the next request.
TEST(ListenerTest, LimitsMemoryOfIdleConnectionsAfterLargeRequests) {
  constexpr size_t kConnections = 20, kMost = 64 << 10;  // bytes for each
  RunningServer server({.listener = {.idle_timeout = 1h}});
  const std::string request = post_text("/predict", R"({"inputs":")" + std::string(400'000, 'a') + R"("})");
  std::vector<std::unique_ptr<RawClient>> clients(kConnections);
  const size_t before = ::mallinfo2().uordblks;
  for (auto& client : clients) {
    client = std::make_unique<RawClient>(server.port());
    client->send(request);
    const auto response = client->receive();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 200);
  }
  // The engine's threads let go of the last texts after they have been answered.
  const auto taken = [&] { return ::mallinfo2().uordblks - std::min(::mallinfo2().uordblks, before); };
  for (int i = 0; i < 500 && taken() > kConnections * kMost; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_LE(taken(), kConnections * kMost);
}

// A refused client may go on sending for a while, and still reads the response.
TEST(ListenerTest, RejectedClientReadsResponseWhileStillSending) {
  RunningServer server({.listener = {.linger_time = 1h}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  const Scratch scratch;
  const std::string path = scratch.path() / "s";
  RunningServer local({.listener = {.unix_socket = path, .linger_time = 1h}});
  local.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  const std::string request = post_text("/predict", std::string(600'000, ' '));
  RawClient over_tcp(server.port()), over_unix(path);
  for (RawClient* client : {&over_tcp, &over_unix}) {
    ASSERT_TRUE(client->send(request));
    const auto response = client->receive();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 401);
    EXPECT_TRUE(client->ends());
  }
}

// One per second: clients without a key wait, and those with a key do not.
TEST(ListenerTest, RateLimitsRejectedClients) {
  RunningServer server({.listener = {.refusal_burst = 1, .refusals_per_second = 1}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  const std::string honest = post_text("/predict", kBody, "Authorization: Bearer a-good-key\r\n");
  const auto begun = Clock::now();
  std::vector<std::unique_ptr<RawClient>> clients(12);
  for (auto& client : clients) {
    client = std::make_unique<RawClient>(server.port());
    client->send(post_text("/predict", kBody));
  }
  RawClient friendly(server.port());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(friendly.send(honest));
    const auto response = friendly.receive();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 200);
  }
  int answered = 0;
  for (auto& client : clients) {
    const auto response = client->receive();
    if (response) {
      EXPECT_EQ(response->status, 401);
      ++answered;
    }
    EXPECT_TRUE(client->ends()) << "those that would wait for too long are not answered";
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  EXPECT_GE(answered, 2);
  EXPECT_LE(answered, 1 + seconds);
}

// A refused request without a body keeps its connection, and is rate-limited as well.
TEST(ListenerTest, RateLimitsRejectedRequestsWithoutBody) {
  RunningServer server({.listener = {.refusal_burst = 1, .refusals_per_second = 10}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  RawClient client(server.port());
  const auto begun = Clock::now();
  std::string all;
  for (int i = 0; i < 4; ++i) all += "GET /info HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(all);
  client.stop_sending();  // it still reads
  for (int i = 0; i < 4; ++i) {
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value()) << i;
    EXPECT_EQ(response->status, 401);
  }
  EXPECT_GE(Clock::now() - begun, 300ms);
}

// Processor time that the network thread spends in half a second on clients that come without a key again and again.
double seconds_for_keyless_clients(int refusals_per_second) {
  RunningServer server({.listener = {.refusals_per_second = refusals_per_second}});
  server.ask<bool>([](Service& s) { return s.use_keys(ApiKeys({"a-good-key"})), true; });
  std::atomic<bool> ended = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      while (!ended) {
        RawClient client(server.port());
        client.send(post_text("/predict", kBody));
        (void)client.receive(100);
      }
    });
  }
  std::this_thread::sleep_for(100ms);
  const double before = server.network_seconds();
  std::this_thread::sleep_for(500ms);
  const double spent = server.network_seconds() - before;
  ended = true;
  for (std::thread& client : clients) client.join();
  return spent;
}

// Without the limit they take most of the thread that serves everybody, however few connections are allowed.
TEST(ListenerTest, LimitsProcessorTimeOfKeylessClients) {
  const double with = seconds_for_keyless_clients(200), without = seconds_for_keyless_clients(0);
  EXPECT_LT(with, 0.5 * without);
}

TEST(ListenerTest, ClosesSlowestBodyWhenBytesRunOut) {
  RunningServer server({.listener = {.body_timeout = 1h}, .service = {.jobs = {.admission = {.bytes = 100'000}}}});
  const std::string body = R"({"inputs":")" + std::string(60'000, 'a') + R"("})";
  const std::string whole = post_text("/predict", body);
  RawClient slow(server.port());
  slow.send(std::string_view(whole).substr(0, whole.size() - 1));
  while (server.ask<size_t>([](Service& s) { return s.bytes_held(); }) < 60'000) std::this_thread::sleep_for(1ms);
  RawClient honest(server.port());
  honest.send(whole);
  const auto response = honest.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200) << response->body;
  EXPECT_TRUE(slow.ends());
  EXPECT_EQ(server.ask<size_t>([](Service& s) { return s.bytes_held(); }), 0U);
}

// Clients that do not read hold no more than all requests may, and give way to one that does.
TEST(ListenerTest, ClosesUnreadResponseWhenBytesRunOut) {
  RunningServer server({.listener = {.write_timeout = 1h},
                        .service = {.jobs = {.admission = {.bytes = 400'000}, .max_client_batch = 100}}});
  std::string body = R"({"exit":{"details":true},"inputs":[["a"])";
  for (int i = 1; i < 100; ++i) body += R"(,["a"])";
  const std::string request = post_text("/predict", body + "]}");
  const auto held = [&] { return server.ask<size_t>([](Service& s) { return s.bytes_held(); }); };
  std::vector<std::unique_ptr<RawClient>> stuck;
  for (int i = 0; i < 8; ++i) {
    stuck.push_back(std::make_unique<RawClient>(server.port()));
    for (int k = 0; k < 200; ++k) stuck.back()->send_some(request);
  }
  while (held() < 200'000) std::this_thread::sleep_for(1ms);
  EXPECT_LE(held(), 420'000U);  // responses, and bodies that were admitted
  int answered = 0;
  for (int i = 0; i < 1000 && answered < 5; ++i) {  // those that have just been written to may still read
    RawClient honest(server.port());
    honest.send(request);
    const auto response = honest.receive();
    ASSERT_TRUE(response.has_value());
    EXPECT_TRUE(response->status == 200 || response->status == 429) << response->body;
    answered += response->status == 200 ? 1 : 0;
  }
  EXPECT_EQ(answered, 5);
}

// As many answers as just fit: the "100 Continue" behind them does not. Nothing may be written beside it.
TEST(ListenerTest, ClosesClientThatDoesNotTake100ContinueInTime) {
  const Scratch scratch;
  const std::string path = scratch.path() / "s";
  RunningServer server({.listener = {.unix_socket = path, .body_timeout = 20ms, .write_timeout = 1h}});
  std::vector<std::unique_ptr<RawClient>> clients;
  std::string gets;
  for (int i = 0; i < 150; ++i) {
    clients.push_back(std::make_unique<RawClient>(path));
    gets += "GET /playground.css HTTP/1.1\r\nHost: x\r\n\r\n";
    clients.back()->send_some(gets +
                              "POST /predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  }
  // The others get it, then 408, or stay as they are.
  bool closed = false;
  for (const auto limit = Clock::now() + 60s; !closed && Clock::now() < limit; std::this_thread::sleep_for(1ms)) {
    for (const auto& client : clients) {
      if (!client->hung_up() || !client->ends() || client->unparsed().find(" 408 ") != std::string_view::npos) continue;
      closed = true;
      EXPECT_EQ(client->unparsed().find(" 100 Continue"), std::string_view::npos);
    }
  }
  EXPECT_TRUE(closed);
}

TEST(ListenerTest, LimitsConnectionsByOpenFileLimit) {
  const auto plan = [](size_t connections, uint64_t limit, uint64_t highest) {
    const DescriptorPlan out = plan_descriptors(connections, limit, highest);
    return std::pair(out.connections, out.limit);
  };
  EXPECT_EQ(plan(1024, 1024, 1 << 20), std::pair(size_t{1024}, uint64_t{1088}));  // raised
  EXPECT_EQ(plan(1024, 1024, 1024), std::pair(size_t{960}, uint64_t{1024}));      // may not be raised
  EXPECT_EQ(plan(100, 4096, 4096), std::pair(size_t{100}, uint64_t{4096}));       // never lowered
  EXPECT_EQ(plan(100, 32, 32), std::pair(size_t{1}, uint64_t{32}));
}

TEST(ListenerTest, Sends100ContinueWhenExpected) {
  RunningServer server;
  RawClient client(server.port());
  client.send("POST /predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(kBody.size()) + "\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 100);
  client.send(kBody);
  EXPECT_EQ(client.receive()->status, 200);
}

TEST(ListenerTest, AnswersHeadRequestWithoutBody) {
  RunningServer server;
  RawClient client(server.port());
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.ends());
}

// Whatever else it has sent, with its request or after it.
TEST(ListenerTest, CancelsWorkOfDisconnectedClient) {
  RunningServer server({.threads = 1});
  server.engine().hold(true);
  size_t clients = 0;
  for (const auto& [with, after] : {std::pair<size_t, size_t>{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 60'000}}) {
    {
      RawClient client(server.port());
      client.send(post_text("/predict", kBody) + std::string(with, 'P'));
      ++clients;
      while (server.ask<size_t>([](Service& s) { return s.in_flight(); }) < clients) std::this_thread::sleep_for(1ms);
      client.send(std::string(after, 'P'));
    }
    const auto abandoned = [&] { return server.ask<uint64_t>([](Service& s) { return s.metrics().abandoned; }); };
    for (int i = 0; i < 5000 && abandoned() < clients; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(abandoned(), clients) << with << " " << after;
  }
  server.engine().hold(false);
  expect_alive(server.port());
  EXPECT_EQ(server.engine().begun(), 1);
}

TEST(ListenerTest, Answers504AtDeadlineWhileEngineIsBusy) {
  RunningServer server({.threads = 1});
  server.engine().hold(true);
  RawClient client(server.port());
  const auto begun = Clock::now();
  client.send(post_text("/predict", kBody, "X-Request-Timeout-Ms: 50\r\n"));
  EXPECT_EQ(client.receive()->status, 504);
  EXPECT_GE(Clock::now() - begun, 50ms);
  server.engine().hold(false);
}

TEST(ListenerTest, DrainAnswersEveryAcceptedRequest) {
  for (int trial = 0; trial < 8; ++trial) {
    // A long grace: a connected client may be slow to send on a busy machine.
    RunningServer server({.listener = {.idle_grace = 60s}, .threads = 2, .work = 2ms});
    std::atomic<int> lost = 0, answered = 0;
    std::atomic<bool> ended = false;
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; ++i) {
      clients.emplace_back([&] {
        while (!ended) {
          RawClient client(server.port());
          if (!client.connected()) return;  // the listening socket is closed: nothing was accepted
          for (bool open = true; open && !ended;) {
            if (!client.send(post_text("/predict", kBody))) break;
            const auto response = client.receive();
            if (!response || response->status != 200) {
              ++lost;
              return;
            }
            ++answered;
            open = !response->closes();
          }
        }
      });
    }
    while (answered < 1 + 5 * trial) std::this_thread::yield();
    EXPECT_TRUE(server.stop());
    ended = true;
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(lost, 0) << "trial " << trial;
  }
}

// Work that is still being cancelled for clients that have left is owed to nobody.
TEST(ListenerTest, DrainReportsOnlyRequestsOfConnectedClientsAsUnanswered) {
  for (const bool leaves : {true, false}) {
    RunningServer server({.listener = {.drain_timeout = 300ms}, .threads = 1});
    server.engine().hold(true);
    RawClient client(server.port());
    client.send(post_text("/predict", kBody));
    while (server.ask<size_t>([](Service& s) { return s.in_flight(); }) == 0) std::this_thread::sleep_for(1ms);
    if (leaves) client.close();
    EXPECT_EQ(server.stop(), leaves);
  }
}

TEST(ListenerTest, ServesOnUnixSocketAndRemovesIt) {
  const Scratch scratch;
  const std::string path = scratch.path() / "s";
  {
    RunningServer server({.listener = {.unix_socket = path}});
    RawClient client(path);
    ASSERT_TRUE(client.connected());
    client.send(post_text("/predict", kBody));
    EXPECT_EQ(client.receive()->status, 200);
    EXPECT_THAT(error_of([&] { Listener second({.unix_socket = path}); }).what(), testing::HasSubstr("in use"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  scratch.write("s", "precious");
  EXPECT_THAT(error_of([&] { Listener second({.unix_socket = path}); }).what(), testing::HasSubstr("in use"));
}

TEST(ListenerTest, ReportsWhyItCannotListen) {
  RunningServer server;
  EXPECT_EQ(error_of([&] { Listener second({.port = server.port()}); }).code(), Code::resources);
  EXPECT_EQ(error_of([] { Listener bad({.hostname = "no such host"}); }).code(), Code::usage);
  EXPECT_EQ(error_of([] { Listener bad({.tls_certificate = "/none.pem", .tls_key = "/none.pem"}); }).code(),
            Code::bad_file);
  EXPECT_TRUE(is_loopback("127.0.0.1") && is_loopback("localhost") && is_loopback("::1") && is_loopback("127.9.9.9"));
  EXPECT_FALSE(is_loopback("0.0.0.0") || is_loopback("::") || is_loopback("10.0.0.1") || is_loopback("example.org"));
}

}  // namespace
}  // namespace exeunt::serve
