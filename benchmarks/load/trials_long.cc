// SPDX-License-Identifier: Apache-2.0
// The trials that measure: for hours, in microseconds, and side by side with other servers.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "benchmarks/load/load.h"
#include "benchmarks/load/server_process.h"
#include "benchmarks/load/trials.h"

namespace exeunt::load {
namespace {

// One number of /metrics, by the start of its line.
double metric(const std::string& page, const std::string& name) {
  const size_t at = page.find("\n" + name + " ");
  if (at == std::string::npos) return 0;
  double value = 0;
  const char* begin = page.data() + at + name.size() + 2;
  std::from_chars(begin, page.data() + page.size(), value);
  return value;
}

}  // namespace

void soak(const Setting& setting, Record& record) {
  ServerProcess server(setting.server);
  LoadPlan plan{.port = server.port(), .seconds = 5, .connections = 16, .requests = setting.requests};
  const double capacity = run_load(plan).goodput();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until it has noticed that these are gone
  const int files_before = server.open_files();
  plan.rate = setting.rate > 0 ? setting.rate : 0.7 * capacity;
  plan.seconds = setting.seconds;
  plan.connections = 64;
  plan.break_off = plan.walk_away = 0.05;
  std::vector<std::pair<double, double>> memory;  // seconds, MiB
  plan.tick = [&](double seconds) {
    if (memory.empty() || seconds - memory.back().first >= 1) memory.emplace_back(seconds, server.resident_mib());
    return true;
  };
  const LoadResult result = run_load(plan);
  int64_t failures = result.lost + result.refused;
  for (const auto& [status, n] : result.statuses) failures += status == 200 ? 0 : n;
  // A twelfth of the time, 5 minutes of an hour, is for warming up.
  std::vector<std::pair<double, double>> settled;
  for (const auto& point : memory) {
    if (point.first >= setting.seconds / 12) settled.push_back(point);
  }
  int files_after = server.open_files();
  for (int i = 0; i < 20 && files_after > files_before; ++i) {  // what we have closed it notices in a moment
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    files_after = server.open_files();
  }
  server.signal(SIGTERM);
  const int end = server.wait();
  record.set("seconds", setting.seconds);
  record.set("rate_per_s", rounded(plan.rate));
  record.set("requests", result.due);
  record.set("answered", result.count(200));
  record.set("clients_that_left", result.given_up);
  record.set("resident_mib", {{"first", rounded(memory.front().second)},
                              {"settled", settled.empty() ? 0 : rounded(settled.front().second)},
                              {"last", rounded(memory.back().second)}});
  record.set("open_files", {{"before", files_before}, {"after", files_after}});
  record.at_most("slope of memory, MiB an hour", rounded(3600 * slope(settled)), 1);
  record.at_most("open files more than at the start", files_after - files_before, 0);
  record.at_most("requests of honest clients without a 200", static_cast<double>(failures), 0);
  record.at_most("exit statuses other than 0", end == 0 ? 0 : 1, 0);
}

void overhead(const Setting& setting, Record& record) {
  const ServerProcess server(setting.server);
  const std::string page = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  // One client: nothing waits for a core, so that the times the server notes are times it computed.
  LoadPlan plan{.port = server.port(), .seconds = 1, .connections = 1, .requests = setting.requests};
  (void)run_load(plan);
  plan.seconds = setting.seconds;
  const std::string before = ask(server.port(), page).body;
  const double cpu = server.cpu_seconds(), network = server.network_seconds();
  const LoadResult result = run_load(plan);
  const double cpu_used = server.cpu_seconds() - cpu, network_used = server.network_seconds() - network;
  const std::string after = ask(server.port(), page).body;
  double model = 0;
  for (const char* part : {"exeunt_tokenization_duration_seconds_sum", "exeunt_inference_duration_seconds_sum"}) {
    model += metric(after, part) - metric(before, part);
  }
  const double requests = static_cast<double>(std::max<int64_t>(result.count(200), 1));
  const auto us = [&](double seconds) { return rounded(1e6 * seconds / requests); };
  record.set("requests", result.count(200));
  record.set("cpu_us", us(cpu_used));
  record.set("tokenising_and_inference_us", us(model));
  record.set("network_thread_us", us(network_used));
  record.at_most("processor time beside tokenising and inference, µs a request", us(cpu_used - model), 60);
}

void peak(const Setting& setting, Record& record) {
  const ServerProcess server(setting.server);
  LoadPlan plan{.port = server.port(), .seconds = 2, .connections = 1, .requests = setting.requests};
  const LoadResult one_by_one = run_load(plan);  // and warms the server up
  plan.connections = 16;
  const LoadResult closed = run_load(plan);
  plan.connections = 256;
  plan.seconds = setting.seconds;
  const auto keeps = [&](double rate, LoadResult& result) {
    plan.rate = rate;
    result = run_load(plan);
    return result.count(200) == result.due && percentile(result.ok_ms, 0.99) <= setting.p99_ms;
  };
  // The highest rate that keeps p99, within 4 %: upwards until one does not, then between the two. A closed loop is no
  // upper limit, because the more texts wait the faster they run, in packs.
  double low = 0, high = 0;  // high 0: none has failed yet
  OrderedJson tried = OrderedJson::array();
  LoadResult best, result;
  for (double rate = 0.85 * closed.goodput(); tried.size() < 12;) {
    const bool kept = keeps(rate, result);
    tried.push_back(
        {{"rate_per_s", rounded(rate)}, {"p99_ms", rounded(percentile(result.ok_ms, 0.99))}, {"kept", kept}});
    (kept ? low : high) = rate;
    if (kept) best = result;
    if (high > 0 && high - low <= 0.04 * high) break;
    rate = high > 0 ? (low + high) / 2 : 1.25 * rate;
  }
  record.set("one_by_one_p50_ms", rounded(percentile(one_by_one.ok_ms, 0.5)));
  record.set("closed_loop_per_s", rounded(closed.goodput()));
  record.set("p99_limit_ms", setting.p99_ms);
  record.set("rate_per_s", rounded(low));
  record.set("p50_ms", rounded(percentile(best.ok_ms, 0.5)));
  record.set("p99_ms", rounded(percentile(best.ok_ms, 0.99)));
  record.set("tried", tried);
}

}  // namespace exeunt::load
