// SPDX-License-Identifier: Apache-2.0
// Attackers without a key: what they cost the others, and what they make the server hold.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <stdexcept>
#include <thread>

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

constexpr double kTurnSeconds = 2, kWarmSeconds = 0.5;

// What the turns of one kind came to.
struct Part {
  std::vector<float> ok_ms = {};
  std::vector<float> p99_ms = {};  // of each turn
  int64_t unanswered = 0;          // without a 200
  double generator_s = 0, server_s = 0;
};

void measure(const LoadPlan& plan, const ServerProcess& server, Part& part) {
  const double own = own_seconds(), its = server.cpu_seconds();
  const LoadResult result = run_load(plan);
  part.generator_s += own_seconds() - own;
  part.server_s += server.cpu_seconds() - its;
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
  return {kAttacks.begin(), kAttacks.end()};
}

}  // namespace

void attack(const Setting& given, Record& record) {
  const Setting setting = with_key(given);
  double capacity = 0, objects = 0;
  {
    const ServerProcess server(setting.server);
    capacity = capacity_of(setting, server.port(), 3);
    objects = objects_ms(server.port());
  }
  const int turns = std::max(1, static_cast<int>(std::lround(setting.seconds / kTurnSeconds)));
  LoadPlan plan{.rate = capacity / 2, .connections = 16, .requests = setting.requests};
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
    const auto warm_and_measure = [&](Part& part) {
      plan.seconds = kWarmSeconds;
      (void)run_load(plan);
      plan.seconds = setting.seconds / turns;
      measure(plan, server, part);
    };
    const auto measure_beside = [&] {
      const Attackers attackers(server.port(), setting.sockets, chosen_attacks(setting));
      warm_and_measure(beside);
      opened += attackers.opened();
      mib += static_cast<double>(attackers.bytes_sent()) / (1 << 20);
    };
    // Either comes first as often as the other: a server that has just started may be slower or faster.
    if (turn % 2 == 1) measure_beside();
    warm_and_measure(alone);
    if (turn % 2 == 0) measure_beside();
    ratios.push_back(beside.p99_ms.back() / std::max(alone.p99_ms.back(), 1e-9F));
  }
  // The median turn: one pause of the machine would decide over the p99 of all turns together, which stands beside it.
  const double p99_alone = percentile(alone.p99_ms, 0.5), p99_beside = percentile(beside.p99_ms, 0.5);
  record.set("sockets", setting.sockets);
  record.set("sockets_opened", opened);
  record.set("mib_sent_by_attackers", rounded(mib));
  record.set("rate_per_s", rounded(capacity / 2));
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
  record.at_most("honest requests without a 200", static_cast<double>(beside.unanswered), 0);
  record.at_most("ms until a body of 260,000 objects from a client with a key is refused", rounded(objects), 50);
  record.at_most("p99 beside attackers, of p99 alone (median of the turns)",
                 rounded(p99_beside / std::max(p99_alone, 1e-9)), 2);
}

void keyless(const Setting& given, Record& record) {
  const Setting setting = with_key(given);
  const ServerProcess server(setting.server);
  // Its threads have their memory by then. Inside TLS nobody asks first, and that memory counts, too.
  if (!setting.tls) (void)capacity_of(setting, server.port(), 1);
  const double before = server.resident_mib();
  double most = before;
  const auto kinds = setting.attack.empty() ? std::vector<std::string_view>{"body", "get", "options"}
                                            : std::vector<std::string_view>{setting.attack};
  const Attackers attackers(server.port(), 1024, kinds, setting.tls);
  for (double passed = 0; passed < setting.seconds; passed += 0.05) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    most = std::max(most, server.resident_mib());
  }
  record.set("sockets", 1024);
  record.set("sockets_opened", attackers.opened());
  record.set("mib_sent_by_attackers", rounded(static_cast<double>(attackers.bytes_sent()) / (1 << 20)));
  record.set("mib_before", rounded(before));
  record.set("kib_more_per_connection", rounded(most - before));  // 1,024 of them: as many KiB each as MiB in all
  record.at_most(setting.tls ? "MiB more at the most, beside 1,024 keyless connections that send 2 MiB each in TLS"
                             : "MiB more at the most, beside 1,024 keyless connections that send 2 MiB each",
                 rounded(most - before), setting.tls ? 96 : 64);
}

}  // namespace exeunt::load
