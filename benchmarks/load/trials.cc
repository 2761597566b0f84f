// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/trials.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "benchmarks/load/load.h"
#include "benchmarks/load/mutate.h"
#include "benchmarks/load/server_process.h"
#include "benchmarks/load/slow_clients.h"
#include "tests/unit/serve/smuggling.h"

namespace exeunt::load {
namespace {

OrderedJson waits(const std::vector<float>& ms) {
  return {{"count", ms.size()},
          {"p50_ms", rounded(percentile(ms, 0.5))},
          {"p99_ms", rounded(percentile(ms, 0.99))},
          {"max_ms", rounded(percentile(ms, 1))}};
}

OrderedJson summary(const LoadResult& result) {
  OrderedJson out;
  out["due"] = result.due;
  for (const auto& [status, count] : result.statuses) out["status_" + std::to_string(status)] = count;
  out["lost"] = result.lost;
  out["refused"] = result.refused;
  out["unsent"] = result.unsent;
  out["given_up"] = result.given_up;
  out["goodput_per_s"] = rounded(result.goodput());
  out["answered"] = waits(result.ok_ms);
  return out;
}

// Answers other than 200 and 429, and requests without one.
double cancelled(const LoadResult& result) {
  int64_t count = result.lost + result.refused + result.unsent;
  for (const auto& [status, n] : result.statuses) count += status == 200 || status == 429 ? 0 : n;
  return static_cast<double>(count);
}

}  // namespace

double capacity_of(const Setting& setting, uint16_t port, double seconds) {
  LoadPlan plan{.port = port, .seconds = 1, .connections = 16, .requests = setting.requests, .tls = setting.tls};
  (void)run_load(plan);
  plan.seconds = seconds;
  return run_load(plan).goodput();
}

void overload(const Setting& setting, Record& record) {
  ServerProcess server(setting.server);
  const double capacity = capacity_of(setting, server.port(), std::min(setting.seconds, 10.0));
  LoadPlan plan{.port = server.port(),
                .rate = 3 * capacity,
                .seconds = setting.seconds,
                .connections = 1000,
                .requests = setting.requests};
  const double before = server.resident_mib();
  double most = before;
  plan.tick = [&](double) {
    most = std::max(most, server.resident_mib());
    return true;
  };
  int64_t without_advice = 0;
  plan.on_reply = [&](size_t, const Reply& reply) {
    without_advice += reply.status == 429 && reply.field("retry-after").empty() ? 1 : 0;
  };
  const LoadResult flood = run_load(plan);
  plan.rate = capacity / 2;
  plan.seconds = std::min(setting.seconds, 10.0);
  const LoadResult calm = run_load(plan);
  record.set("capacity_per_s", rounded(capacity));
  record.set("flood", summary(flood));
  record.set("turned_away", waits(flood.shed_ms));
  record.set("calm_after", summary(calm));
  record.set("resident_mib", {{"before", rounded(before)}, {"most", rounded(most)}});
  record.at_most("answers other than 200 and 429", cancelled(flood), 0);
  record.at_most("answers of 429 without Retry-After", static_cast<double>(without_advice), 0);
  record.at_least("goodput of capacity", rounded(flood.goodput() / capacity), 0.9);
  record.at_most("growth in memory, MiB", rounded(most - before), 32);
  record.at_most("answers other than 200 afterwards", cancelled(calm) + static_cast<double>(calm.count(429)), 0);
}

void drain(const Setting& setting, Record& record) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> moment(0.2, 0.8);
  double capacity = 0;
  {
    const ServerProcess server(setting.server);
    capacity = capacity_of(setting, server.port(), 3);
  }
  int64_t lost = 0, other = 0, answered = 0, refused = 0;
  int bad_ends = 0;
  for (int trial = 0; trial < setting.trials; ++trial) {
    ServerProcess server(setting.server);
    LoadPlan plan{.port = server.port(),
                  .rate = 0.8 * capacity,
                  .seconds = 1,
                  .connections = 16,
                  .requests = setting.requests,
                  .seed = static_cast<uint64_t>(trial) + 1};
    const double when = moment(random);
    bool signalled = false;
    plan.tick = [&](double seconds) {
      if (!signalled && seconds >= when) server.signal(SIGTERM);
      signalled = signalled || seconds >= when;
      return seconds < when + 0.4;  // the listener is closed by then
    };
    const LoadResult result = run_load(plan);
    bad_ends += server.wait() == 0 ? 0 : 1;
    lost += result.lost;
    refused += result.refused;
    answered += result.count(200);
    for (const auto& [status, n] : result.statuses) other += status == 200 ? 0 : n;
  }
  record.set("trials", setting.trials);
  record.set("rate_per_s", rounded(0.8 * capacity));
  record.set("answered", answered);
  record.set("connections_refused", refused);
  record.at_most("accepted requests lost", static_cast<double>(lost), 0);
  record.at_most("answers other than 200", static_cast<double>(other), 0);
  record.at_most("exit statuses other than 0", bad_ends, 0);
}

void slow(const Setting& setting, Record& record) {
  const ServerProcess server(setting.server);
  const double capacity = capacity_of(setting, server.port(), 3);
  LoadPlan plan{.port = server.port(),
                .rate = capacity / 2,
                .seconds = setting.seconds,
                .connections = 16,
                .requests = setting.requests};
  const LoadResult alone = run_load(plan);
  SlowClients slow_clients(server.port(), 1000);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // what they ask before they fall silent is answered by then
  plan.tick = [&](double) {
    slow_clients.drip();
    return true;
  };
  const LoadResult beside = run_load(plan);
  const double ratio = percentile(beside.ok_ms, 0.99) / std::max(percentile(alone.ok_ms, 0.99), 1e-9);
  record.set("sockets", 1000);
  record.set("sockets_opened_again", slow_clients.reopened());
  record.set("rate_per_s", rounded(capacity / 2));
  record.set("alone", summary(alone));
  record.set("beside_slow_sockets", summary(beside));
  record.at_most("honest requests without a 200", cancelled(beside) + static_cast<double>(beside.count(429)), 0);
  record.at_most("p99 beside slow sockets, of p99 alone", rounded(ratio), 1.5);
}

namespace {

// Does an error show what is nobody's business: places in files or memory, names of our code or of libraries?
bool tells_internals(const std::string& body) {
  for (const char* sign : {"0x", ".cc", "std::", "boost", "nlohmann", "json.exception", "exeunt::", "/usr/", "/home/",
                           "/tmp/", "/proc/", "/var/", "safetensors", "bad_alloc"}) {
    if (body.find(sign) != std::string::npos) return true;
  }
  return false;
}

// What came back for damaged requests, counted.
struct Harvest {
  std::map<int, int64_t> statuses = {};
  int64_t bad_bodies = 0, partial = 0, unreachable = 0, telling = 0;

  void take(const Exchange& got) {
    unreachable += got.connected ? 0 : 1;
    partial += got.partial ? 1 : 0;
    for (const Reply& reply : got.replies) {
      ++statuses[reply.status];
      if (reply.status < 400 || reply.body.empty()) continue;
      const Json body = Json::parse(reply.body, nullptr, false);
      bool sound = body.is_object();
      for (const char* field : {"error", "error_type", "hint", "request_id"}) {
        sound = sound && body.contains(field) && body[field].is_string() &&
                !body[field].get_ref<const std::string&>().empty();
      }
      bad_bodies += sound ? 0 : 1;
      telling += tells_internals(reply.body) ? 1 : 0;
    }
  }
  void add(const Harvest& other) {
    for (const auto& [status, n] : other.statuses) statuses[status] += n;
    bad_bodies += other.bad_bodies;
    partial += other.partial;
    unreachable += other.unreachable;
    telling += other.telling;
  }
};

constexpr int kSenders = 8;
constexpr double kSilence = 0.05;  // seconds, behind which half a request is left alone

Harvest send_mutated(uint16_t port, int64_t count) {
  std::vector<Harvest> parts(kSenders);
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int64_t seed = 1 + sender; seed <= count; seed += kSenders) {
        parts[static_cast<size_t>(sender)].take(
            converse(port, mutated_request(static_cast<uint64_t>(seed)), 30, kSilence));
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  Harvest all;
  for (const Harvest& part : parts) all.add(part);
  return all;
}

}  // namespace

void mutate(const Setting& setting, Record& record) {
  ServerProcess server(setting.server);
  const Harvest harvest = send_mutated(server.port(), setting.count);
  const std::string hidden = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  int64_t wrong = 0, cases = 0;
  for (const auto& smuggled : serve::smuggling_heads()) {
    const Exchange got = converse(server.port(), smuggled.bytes + hidden, 30);
    const bool right = got.ended && got.replies.size() == 1 && got.replies[0].status == 400 && got.replies[0].closes;
    wrong += right ? 0 : 1;
    ++cases;
  }
  const bool alive = ask(server.port(), hidden).status == 200;
  server.signal(SIGTERM);
  const int end = server.wait();
  int64_t failures = 0;
  OrderedJson counts;
  for (const auto& [status, n] : harvest.statuses) {
    counts[std::to_string(status)] = n;
    failures += status >= 500 ? n : 0;
  }
  record.set("mutated_requests", setting.count);
  record.set("statuses", counts);
  record.set("smuggling_cases", cases);
  record.at_most("answers of 500 and above", static_cast<double>(failures), 0);
  record.at_most("answers cut short", static_cast<double>(harvest.partial), 0);
  record.at_most("errors in another form", static_cast<double>(harvest.bad_bodies), 0);
  record.at_most("errors that show internals", static_cast<double>(harvest.telling), 0);
  record.at_most("connections refused", static_cast<double>(harvest.unreachable), 0);
  record.at_most("smuggling cases not refused with 400 and closed", static_cast<double>(wrong), 0);
  record.at_most("crashes, and reports of sanitizers where the server has them", alive && end == 0 ? 0 : 1, 0);
}

void company(const Setting& setting, Record& record) {
  const ServerProcess server(setting.server);
  std::vector<Reply> alone;
  for (const std::string& request : setting.requests) alone.push_back(ask(server.port(), request));
  int64_t compared = 0, different = 0;
  LoadPlan plan{.port = server.port(), .seconds = setting.seconds, .connections = 32, .requests = setting.requests};
  plan.on_reply = [&](size_t request, const Reply& reply) {
    ++compared;
    const bool same = reply.status == 200 && reply.body == alone[request].body &&
                      reply.field("x-exit-layer") == alone[request].field("x-exit-layer");
    different += same ? 0 : 1;
  };
  const LoadResult result = run_load(plan);
  record.set("texts", setting.requests.size());
  record.set("clients", plan.connections);
  record.set("compared", compared);
  record.set("load", summary(result));
  record.at_most("answers whose label, scores or exit differ", static_cast<double>(different), 0);
  record.at_least("answers compared", static_cast<double>(compared), static_cast<double>(setting.requests.size()));
}

}  // namespace exeunt::load
