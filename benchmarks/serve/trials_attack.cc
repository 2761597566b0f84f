// SPDX-License-Identifier: Apache-2.0
// Attackers without a key: what they cost the others, and what they make the server hold.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "benchmarks/serve/attack_crowd.h"
#include "benchmarks/serve/load.h"
#include "benchmarks/serve/server_process.h"
#include "benchmarks/serve/trials.h"

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

std::vector<std::string_view> chosen_attacks(const Setting& setting) {
  if (!setting.attack.empty()) return {setting.attack};
  return {kAttacks.begin(), kAttacks.end()};
}

}  // namespace

void attack(const Setting& given, Record& record) {
  const Setting setting = with_key(given);
  const ServerProcess server(setting.server);
  const double capacity = capacity_of(setting, server.port(), 3);
  const LoadPlan plan{.port = server.port(),
                      .rate = capacity / 2,
                      .seconds = setting.seconds,
                      .connections = 16,
                      .requests = setting.requests};
  const LoadResult alone = run_load(plan);
  const double before = own_seconds();
  const AttackCrowd crowd(server.port(), setting.sockets, chosen_attacks(setting));
  const LoadResult beside = run_load(plan);
  const double p99_alone = percentile(alone.ok_ms, 0.99), p99_beside = percentile(beside.ok_ms, 0.99);
  record.set("sockets", setting.sockets);
  record.set("sockets_opened", crowd.opened());
  record.set("mib_sent_by_attackers", rounded(static_cast<double>(crowd.bytes_sent()) / (1 << 20)));
  record.set("generator_cpu_seconds", rounded(own_seconds() - before));
  record.set("rate_per_s", rounded(capacity / 2));
  record.set("answered_alone", alone.count(200));
  record.set("answered_beside", beside.count(200));
  record.set("p99_ms_alone", rounded(p99_alone));
  record.set("p99_ms_beside", rounded(p99_beside));
  int64_t others = 0;
  for (const auto& [status, count] : beside.statuses) others += status == 200 ? 0 : count;
  record.at_most("honest requests without a 200", static_cast<double>(others + beside.lost + beside.refused), 0);
  record.at_most("p99 beside attackers, of p99 alone", rounded(p99_beside / std::max(p99_alone, 1e-9)), 2);
}

void keyless(const Setting& given, Record& record) {
  const Setting setting = with_key(given);
  const ServerProcess server(setting.server);
  (void)capacity_of(setting, server.port(), 1);  // its threads have their memory by then
  const double before = server.resident_mib();
  double most = before;
  const AttackCrowd crowd(server.port(), 1024, {"body"});
  for (double passed = 0; passed < setting.seconds; passed += 0.05) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    most = std::max(most, server.resident_mib());
  }
  record.set("sockets", 1024);
  record.set("sockets_opened", crowd.opened());
  record.set("mib_sent_by_attackers", rounded(static_cast<double>(crowd.bytes_sent()) / (1 << 20)));
  record.set("mib_before", rounded(before));
  record.at_most("MiB more at the most, beside 1,024 keyless connections that send 2 MiB each", rounded(most - before),
                 64);
}

}  // namespace exeunt::load
