// SPDX-License-Identifier: Apache-2.0
// The load generator, held to servers that do on purpose what it has to notice.
#include "benchmarks/load/load.h"

#include <atomic>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "benchmarks/load/figures.h"
#include "benchmarks/load/mutate.h"

namespace exeunt::load {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr const char* kFull = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

// Answers each read with `answer` after `work`, one connection a thread; empty = ends the connection instead.
class PlainServer {
 public:
  explicit PlainServer(std::string answer, std::chrono::milliseconds work = 0ms)
      : answer_(std::move(answer)), work_(work), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
  }
  ~PlainServer() {
    if (acceptor_.joinable()) (void)connections();
    for (std::thread& client : clients_) client.join();
    ::close(listener_);
  }
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;
  [[nodiscard]] uint16_t port() const { return port_; }
  // How many there were; ends the server.
  [[nodiscard]] size_t connections() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    return clients_.size();
  }

 private:
  void accept() {
    for (int socket = 0; (socket = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      clients_.emplace_back([this, socket] { talk(socket); });
    }
  }
  void talk(int socket) {
    char bytes[4096];
    while (::recv(socket, bytes, sizeof bytes, 0) > 0 && !answer_.empty()) {
      std::this_thread::sleep_for(work_);
      if (::send(socket, answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) break;
      if (answer_.find("close") != std::string::npos) break;
    }
    ::close(socket);
  }

  std::string answer_;
  std::chrono::milliseconds work_;
  int listener_;
  uint16_t port_ = 0;
  std::thread acceptor_;
  std::vector<std::thread> clients_;
};

const std::vector<std::string> kRequests = {post_request("/predict", R"({"inputs":"a"})")};

TEST(Percentile, UsesNearestRank) {
  EXPECT_EQ(percentile({}, 0.99), 0);
  EXPECT_EQ(percentile({5}, 0.5), 5);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.51), 3);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 1), 4);
}

TEST(Slope, MatchesLeastSquaresLine) {
  EXPECT_EQ(slope({}), 0);
  EXPECT_EQ(slope({{1, 7}}), 0);
  EXPECT_DOUBLE_EQ(slope({{0, 1}, {1, 3}, {2, 5}}), 2);
  EXPECT_DOUBLE_EQ(slope({{0, 1}, {1, 1}, {2, 1}}), 0);
}

TEST(Record, ReportsWhetherEveryTargetWasMet) {
  Record record("t", "c");
  record.at_most("a", 1, 1);
  record.at_least("b", 2, 1);
  EXPECT_TRUE(record.kept());
  record.at_least("c", 0.5, 1);
  EXPECT_FALSE(record.kept());
  EXPECT_EQ(record.json()["promises"][2]["kept"], false);
  EXPECT_EQ(record.json()["kept"], false);
}

TEST(ReplyReader, ParsesResponsesSplitAnywhere) {
  const std::string two = std::string(kOk) + kFull;
  for (size_t cut = 0; cut <= two.size(); ++cut) {
    ReplyReader reader;
    std::vector<Reply> got;
    for (const std::string& part : {two.substr(0, cut), two.substr(cut)}) {
      reader.feed(part);
      while (auto reply = reader.next()) got.push_back(*reply);
    }
    ASSERT_EQ(got.size(), 2U) << cut;
    EXPECT_EQ(got[0].body, "ok");
    EXPECT_FALSE(got[0].closes);
    EXPECT_EQ(got[1].status, 429);
    EXPECT_TRUE(got[1].closes);
    EXPECT_FALSE(reader.partial());
  }
  ReplyReader junk;
  junk.feed("SSH-2.0\r\n\r\n");
  EXPECT_THROW((void)junk.next(), std::runtime_error);
}

TEST(Load, SendsAtGivenRateAndCountsResponses) {
  const PlainServer server(kOk);
  const LoadResult result = run_load({.port = server.port(), .rate = 400, .seconds = 0.5, .requests = kRequests});
  EXPECT_EQ(result.count(200), result.due);
  EXPECT_NEAR(static_cast<double>(result.due), 200, 75);  // five standard deviations of a Poisson count
  EXPECT_EQ(result.lost + result.refused + result.unsent, 0);
  EXPECT_EQ(result.ok_ms.size(), static_cast<size_t>(result.due));
}

TEST(Load, LatencyIncludesTimeBeforeSending) {
  // 20 ms each on one connection: 50 a second, asked for 100. Who looks only at the answer sees 20 ms.
  const PlainServer server(kOk, 20ms);
  const LoadResult result =
      run_load({.port = server.port(), .rate = 100, .seconds = 1, .connections = 1, .requests = kRequests});
  EXPECT_EQ(result.count(200), result.due);
  EXPECT_GT(percentile(result.ok_ms, 0.99), 300);
}

TEST(Load, DistinguishesLostRefusedAndShedRequests) {
  const PlainServer deaf("");
  const LoadResult lost = run_load({.port = deaf.port(), .rate = 100, .seconds = 0.3, .requests = kRequests});
  EXPECT_EQ(lost.lost, lost.due);
  const PlainServer full(kFull);
  const LoadResult shed = run_load({.port = full.port(), .rate = 100, .seconds = 0.3, .requests = kRequests});
  EXPECT_EQ(shed.count(429), shed.due);
  EXPECT_EQ(shed.shed_ms.size(), static_cast<size_t>(shed.due));
  uint16_t nobody = 0;
  {
    const PlainServer gone(kOk);
    nobody = gone.port();
  }
  const LoadResult refused = run_load({.port = nobody, .rate = 100, .seconds = 0.3, .requests = kRequests});
  EXPECT_EQ(refused.refused, refused.due);
}

TEST(Load, DisconnectsAtGivenRate) {
  const PlainServer server(kOk);
  const LoadResult result = run_load(
      {.port = server.port(), .rate = 400, .seconds = 0.5, .requests = kRequests, .break_off = 0.5, .walk_away = 0.5});
  EXPECT_EQ(result.given_up + result.count(200), result.due);
  EXPECT_GT(result.given_up, result.due / 2);  // three in four
  EXPECT_LT(result.given_up, result.due);
}

TEST(Load, ClosedLoopSendsAfterEachResponse) {
  PlainServer server(kOk);
  int answered = 0;
  const LoadResult result = run_load({.port = server.port(),
                                      .seconds = 60,
                                      .connections = 4,
                                      .requests = kRequests,
                                      .on_reply = [&](size_t, const Reply&) { ++answered; },
                                      .tick = [&](double) { return answered < 100; }});
  EXPECT_EQ(result.count(200), result.due);
  EXPECT_GE(result.due, 100);
  EXPECT_EQ(server.connections(), 4U);
}

TEST(Exchange, ReturnsAllResponses) {
  const PlainServer full(kFull);
  const Exchange got = converse(full.port(), "anything", 5);
  ASSERT_EQ(got.replies.size(), 1U);
  EXPECT_TRUE(got.ended && got.connected && !got.partial);
  const PlainServer server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
  EXPECT_EQ(ask(server.port(), kRequests[0]).body, "ok");
}

TEST(MutatedRequest, IsMutatedAndDeterministic) {
  int same = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const std::string bytes = mutated_request(seed);
    EXPECT_EQ(bytes, mutated_request(seed));
    const auto& sound = sound_requests();
    same += std::find(sound.begin(), sound.end(), bytes) != sound.end() ? 1 : 0;
  }
  EXPECT_LT(same, 20);
}

}  // namespace
}  // namespace exeunt::load
