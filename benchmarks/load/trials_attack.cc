// SPDX-License-Identifier: Apache-2.0
// Attackers without a key: what they cost the others, and what they make the server hold.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "benchmarks/load/attackers.h"
#include "benchmarks/load/load.h"
#include "benchmarks/load/server_process.h"
#include "benchmarks/load/trials.h"

namespace exeunt::load {
namespace {

constexpr const char* kKey = "the-key-of-this-trial";

Setting with_key(const Setting& setting) {
  Setting out = setting;
  out.server.insert(out.server.end(), {"--api-key", kKey});
  for (std::string& request : out.requests) {
    request.insert(request.find("\r\n") + 2, std::string("Authorization: Bearer ") + kKey + "\r\n");
  }
  return out;
}

double own_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr double kTurnSeconds = 2, kWarmSeconds = 1;

// What the turns of one kind came to.
struct Part {
  std::vector<float> ok_ms = {};
  std::vector<float> p99_ms = {};                       // of each turn
  int64_t unanswered = 0;                               // without a 200
  double generator_s = 0, server_s = 0, network_s = 0;  // processor time
};

void measure(const LoadPlan& plan, const ServerProcess& server, Part& part) {
  const double own = own_seconds(), its = server.cpu_seconds(), network = server.network_seconds();
  const LoadResult result = run_load(plan);
  part.generator_s += own_seconds() - own;
  part.server_s += server.cpu_seconds() - its;
  part.network_s += server.network_seconds() - network;
  part.ok_ms.insert(part.ok_ms.end(), result.ok_ms.begin(), result.ok_ms.end());
  part.p99_ms.push_back(static_cast<float>(percentile(result.ok_ms, 0.99)));
  for (const auto& [status, count] : result.statuses) part.unanswered += status == 200 ? 0 : count;
  part.unanswered += result.lost + result.refused + result.unsent;
}

// From the lower to the upper quartile.
OrderedJson middle_half(const std::vector<float>& values) {
  return {rounded(percentile(values, 0.25)), rounded(percentile(values, 0.75))};
}

// Milliseconds until a client with a key has its answer to the body of 260,000 objects, which is read and refused; the
// slowest of a few.
double objects_ms(uint16_t port) {
  const std::string request =
      post_request("/predict", body_of_objects(), std::string("Authorization: Bearer ") + kKey + "\r\n");
  double slowest = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const Reply reply = ask(port, request);
    if (reply.status < 400 || reply.status >= 500) throw std::runtime_error("a body of 260,000 objects is not refused");
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begun;
    slowest = std::max(slowest, passed.count());
  }
  return slowest;
}

std::vector<std::string_view> chosen_attacks(const Setting& setting) {
  if (!setting.attack.empty()) return {setting.attack};
  std::vector<std::string_view> all(kAttacks.begin(), kAttacks.end());
  if (setting.tls) all.insert(all.end(), kTlsAttacks.begin(), kTlsAttacks.end());
  return all;
}

// A client that sends at its own pace; a failure shows in the end.
class Uploader {
 public:
  Uploader(uint16_t port, bool tls) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{30, 0};
    (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (tls) {  // handshakes are shared out among addresses, and attackers have others
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
      (void)::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (!tls) return;
    context_ = SSL_CTX_new(TLS_client_method());
    tls_ = SSL_new(context_);
    SSL_set_fd(tls_, socket_);
    (void)SSL_connect(tls_);
  }
  ~Uploader() {
    SSL_free(tls_);
    SSL_CTX_free(context_);
    ::close(socket_);
  }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  void send(std::string_view bytes) const {
    if (tls_ != nullptr) {
      (void)SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()));
    } else {
      (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  }
  [[nodiscard]] bool receives_200() const {
    constexpr std::string_view kWanted = "HTTP/1.1 200";
    std::array<char, kWanted.size()> bytes = {};
    const ssize_t got = tls_ != nullptr ? SSL_read(tls_, bytes.data(), bytes.size())
                                        : ::recv(socket_, bytes.data(), bytes.size(), MSG_WAITALL);
    return got == static_cast<ssize_t>(bytes.size()) && std::string_view(bytes.data(), bytes.size()) == kWanted;
  }

 private:
  int socket_;
  SSL_CTX* context_ = nullptr;
  SSL* tls_ = nullptr;
};

constexpr int kUploads = 20;

// Clients with a key that take 1.5 s to send 60 kB; returns how many get a 200.
int answered_uploads(const Setting& setting, uint16_t port) {
  constexpr size_t kPieces = 15;
  const Json body = {{"inputs", std::string(60'000, 'a')}};
  const std::string request =
      post_request("/predict", body.dump(), std::string("Authorization: Bearer ") + kKey + "\r\n");
  const auto piece = [&](size_t nth) {
    const size_t from = request.size() * nth / kPieces, to = request.size() * (nth + 1) / kPieces;
    return std::string_view(request).substr(from, to - from);
  };
  std::vector<std::unique_ptr<Uploader>> clients;
  for (int i = 0; i < kUploads; ++i) {
    clients.push_back(std::make_unique<Uploader>(port, setting.tls));
    clients.back()->send(piece(0));
  }
  for (size_t nth = 1; nth < kPieces; ++nth) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (const auto& client : clients) client->send(piece(nth));
  }
  int answered = 0;
  for (const auto& client : clients) answered += client->receives_200() ? 1 : 0;
  return answered;
}

}  // namespace

void attack(const Setting& given, Record& record) {
  const Setting setting = with_key(given);
  double capacity = 0, objects = 0;
  {
    const ServerProcess server(setting.server);
    capacity = capacity_of(setting, server.port(), 3);
    if (!setting.tls) objects = objects_ms(server.port());
  }
  const int turns = std::max(1, static_cast<int>(std::lround(setting.seconds / kTurnSeconds)));
  const double rate = setting.rate > 0 ? setting.rate : capacity / 2;
  LoadPlan plan{
      .rate = rate, .warm_seconds = kWarmSeconds, .connections = 16, .requests = setting.requests, .tls = setting.tls};
  // In turns, so that a machine with other work is the same for both. Every turn has a server of its own: where the
  // system places the threads of one on the cores decides over its p99, and nothing of an attack reaches into the next.
  Part alone, beside;
  std::vector<float> ratios;
  int64_t opened = 0;
  double mib = 0;
  for (int turn = 0; turn < turns; ++turn) {
    const ServerProcess server(setting.server);
    plan.port = server.port();
    plan.seed = static_cast<uint64_t>(turn) + 1;
    plan.seconds = setting.seconds / turns;
    // Attackers come when honest clients have connected: a new client shares handshakes with them, and its wait is
    // part of the trial `keyless`.
    const auto measure_beside = [&] {
      std::optional<Attackers> attackers;
      plan.tick = [&](double seconds) {
        if (!attackers && seconds >= kWarmSeconds / 2)
          attackers.emplace(server.port(), setting.sockets, chosen_attacks(setting), setting.tls);
        return true;
      };
      measure(plan, server, beside);
      plan.tick = {};
      opened += attackers->opened();
      mib += static_cast<double>(attackers->bytes_sent()) / (1 << 20);
    };
    // Either comes first as often as the other: a server that has just started may be slower or faster.
    if (turn % 2 == 1) measure_beside();
    measure(plan, server, alone);
    if (turn % 2 == 0) measure_beside();
    ratios.push_back(beside.p99_ms.back() / std::max(alone.p99_ms.back(), 1e-9F));
  }
  // The median turn: one pause of the machine would decide over the p99 of all turns together, which stands beside it.
  const double p99_alone = percentile(alone.p99_ms, 0.5), p99_beside = percentile(beside.p99_ms, 0.5);
  record.set("sockets", setting.sockets);
  record.set("sockets_opened", opened);
  record.set("mib_sent_by_attackers", rounded(mib));
  record.set("rate_per_s", rounded(rate));
  record.set("answered_alone", static_cast<int64_t>(alone.ok_ms.size()));
  record.set("answered_beside", static_cast<int64_t>(beside.ok_ms.size()));
  record.set("turns", turns);
  record.set("p99_ms_alone", rounded(p99_alone));
  record.set("p99_ms_beside", rounded(p99_beside));
  record.set("p99_ms_alone_middle_half", middle_half(alone.p99_ms));
  record.set("p99_ms_beside_middle_half", middle_half(beside.p99_ms));
  record.set("ratio_of_a_turn_middle_half", middle_half(ratios));
  record.set("p99_ms_alone_all_turns", rounded(percentile(alone.ok_ms, 0.99)));
  record.set("p99_ms_beside_all_turns", rounded(percentile(beside.ok_ms, 0.99)));
  record.set("generator_cpu_seconds_alone", rounded(alone.generator_s));
  record.set("generator_cpu_seconds_beside", rounded(beside.generator_s));
  record.set("server_cpu_seconds_alone", rounded(alone.server_s));
  record.set("server_cpu_seconds_beside", rounded(beside.server_s));
  record.set("network_thread_cpu_seconds_alone", rounded(alone.network_s));
  record.set("network_thread_cpu_seconds_beside", rounded(beside.network_s));
  record.at_most("honest requests without a 200", static_cast<double>(beside.unanswered), 0);
  if (!setting.tls) {
    record.at_most("ms until a body of 260,000 objects from a client with a key is refused", rounded(objects), 50);
  }
  record.at_most("p99 beside attackers, of p99 alone (median of the turns)",
                 rounded(p99_beside / std::max(p99_alone, 1e-9)), 2);
}

void keyless(const Setting& given, Record& record) {
  const Setting setting = with_key(given);
  const ServerProcess server(setting.server);
  (void)capacity_of(setting, server.port(), 1);  // its threads have their memory by then
  const double before = server.resident_mib();
  double most = before;
  const auto kinds = setting.attack.empty() ? std::vector<std::string_view>{"body", "public", "chunks"}
                                            : std::vector<std::string_view>{setting.attack};
  const Attackers attackers(server.port(), 1024, kinds, setting.tls);
  std::atomic<bool> ended = false;
  std::thread watch([&] {
    for (; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      most = std::max(most, server.resident_mib());
  });
  const auto begun = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // all have connected
  int fewest = kUploads, rounds = 0;
  do {
    fewest = std::min(fewest, answered_uploads(setting, server.port()));
    ++rounds;
  } while (std::chrono::steady_clock::now() - begun < std::chrono::duration<double>(setting.seconds));
  ended = true;
  watch.join();
  record.set("sockets", 1024);
  record.set("sockets_opened", attackers.opened());
  record.set("mib_sent_by_attackers", rounded(static_cast<double>(attackers.bytes_sent()) / (1 << 20)));
  record.set("mib_before", rounded(before));
  record.set("kib_more_per_connection", rounded(most - before));  // 1,024 of them: as many KiB each as MiB in all
  record.set("rounds_of_uploads", rounds);
  record.at_most(setting.tls ? "MiB more at the most, beside 1,024 keyless connections in TLS"
                             : "MiB more at the most, beside 1,024 keyless connections",
                 rounded(most - before), 64);
  record.at_least("answered of 20 uploads of 1.5 s with a key, in the worst round", fewest, kUploads);
}

}  // namespace exeunt::load
