// SPDX-License-Identifier: Apache-2.0
// The trials at the edges of what a server can do: too little time, a little too much work, and its first second.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>

#include "benchmarks/load/load.h"
#include "benchmarks/load/server_process.h"
#include "benchmarks/load/trials.h"

namespace exeunt::load {
namespace {

using Clock = std::chrono::steady_clock;

std::string with_field(std::string request, const std::string& field) {
  return request.insert(request.find("\r\n") + 2, field + "\r\n");
}

// The label that /predict puts first.
std::string label_of(const Reply& reply) {
  const Json body = Json::parse(reply.body, nullptr, false);
  return body.is_array() && !body.empty() ? body[0].value("label", "") : "";
}

// The label of each request's text at full depth.
std::vector<std::string> full_labels(const Setting& setting, uint16_t port) {
  std::vector<std::string> out;
  for (const std::string& request : setting.requests) {
    Json body = Json::parse(request.substr(request.find("\r\n\r\n") + 4));
    body["exit"] = {{"policy", "full"}};
    out.push_back(label_of(ask(port, post_request("/predict", body.dump()))));
  }
  return out;
}

struct Pressed {
  LoadResult load = {};
  int64_t answered = 0, changed = 0;
  std::map<std::string, int64_t> policies = {};  // answers by the policy they name
};

Pressed press(const Setting& setting, uint16_t port, double rate, const std::vector<std::string>& full) {
  Pressed out;
  LoadPlan plan{
      .port = port, .rate = rate, .seconds = setting.seconds, .connections = 1000, .requests = setting.requests};
  plan.on_reply = [&](size_t request, const Reply& reply) {
    if (reply.status != 200) return;
    ++out.answered;
    out.changed += label_of(reply) == full[request] ? 0 : 1;
    ++out.policies[std::string(reply.field("x-exit-policy"))];
  };
  out.load = run_load(plan);
  return out;
}

}  // namespace

void deadline(const Setting& setting, Record& record) {
  constexpr double kLimit = 50, kGrace = 5;  // milliseconds
  const ServerProcess server(setting.server);
  const double capacity = capacity_of(setting, server.port(), 3);
  LoadPlan plan{.port = server.port(), .rate = 1.5 * capacity, .seconds = setting.seconds, .connections = 1000};
  for (const std::string& request : setting.requests) {
    plan.requests.push_back(with_field(request, "X-Request-Timeout-Ms: 50"));
  }
  const LoadResult result = run_load(plan);
  std::vector<float> waits = result.ok_ms;
  waits.insert(waits.end(), result.late_ms.begin(), result.late_ms.end());
  const auto in_time = std::count_if(waits.begin(), waits.end(), [](float ms) { return ms <= kLimit + kGrace; });
  int64_t other = result.lost + result.refused + result.unsent;
  for (const auto& [status, n] : result.statuses) other += status == 200 || status == 429 || status == 504 ? 0 : n;
  record.set("rate_per_s", rounded(plan.rate));
  record.set("deadline_ms", kLimit);
  record.set("answered", result.count(200));
  record.set("answered_504", result.count(504));
  record.set("turned_away", result.count(429));
  record.set("without_answer", {{"lost", result.lost}, {"refused", result.refused}, {"unsent", result.unsent}});
  record.set("p50_ms", rounded(percentile(waits, 0.5)));
  record.set("p999_ms", rounded(percentile(waits, 0.999)));
  record.at_least("share answered, with 200 or 504, within the deadline and 5 ms",
                  rounded(static_cast<double>(in_time) / static_cast<double>(std::max<size_t>(waits.size(), 1))),
                  0.999);
  record.at_least("deadlines that struck", static_cast<double>(result.count(504)), 1);
  record.at_most("answers other than 200, 429 and 504", static_cast<double>(other), 0);
}

void degrade(const Setting& setting, Record& record) {
  double rate = 0, plain_goodput = 0;
  std::vector<std::string> full;
  {
    const ServerProcess plain(setting.server);
    full = full_labels(setting, plain.port());
    rate = 1.5 * capacity_of(setting, plain.port(), 3);
    plain_goodput = press(setting, plain.port(), rate, full).load.goodput();
  }
  std::vector<std::string> command = setting.server;
  command.insert(command.end(), {"--max-drop-under-load", setting.drop});
  const ServerProcess server(command);
  const Pressed pressed = press(setting, server.port(), rate, full);
  OrderedJson policies;
  for (const auto& [policy, n] : pressed.policies) policies[policy] = n;
  const double limit = std::stod(setting.drop) / (setting.drop.ends_with('%') ? 100 : 1);
  record.set("rate_per_s", rounded(rate));
  record.set("goodput_without_per_s", rounded(plain_goodput));
  record.set("goodput_with_per_s", rounded(pressed.load.goodput()));
  record.set("turned_away", pressed.load.count(429));
  record.set("answers_by_policy", policies);
  record.at_least("goodput with the controller, of that without", rounded(pressed.load.goodput() / plain_goodput), 1.3);
  record.at_most(
      "share of answers that full depth gives otherwise",
      rounded(static_cast<double>(pressed.changed) / static_cast<double>(std::max<int64_t>(pressed.answered, 1))),
      limit);
  record.at_least("policies named in answers", static_cast<double>(pressed.policies.size()), 2);
}

void start(const Setting& setting, Record& record) {
  std::vector<float> ready, refused;
  double resident = 0;
  int wrong = 0;
  std::vector<std::string> bad = setting.server;
  bad.emplace_back("--no-such-flag");
  for (int i = 0; i < setting.trials; ++i) {
    auto begun = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<float>(Clock::now() - begun).count(); };
    {
      ServerProcess server(setting.server);
      const bool is_ready = ask(server.port(), "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200;
      ready.push_back(seconds());
      resident = server.resident_mib();
      server.signal(SIGTERM);
      wrong += is_ready && server.wait() == 0 ? 0 : 1;
    }
    begun = Clock::now();
    try {
      const ServerProcess never(bad);
      ++wrong;
    } catch (const NotStarted& end) {
      refused.push_back(seconds());
      wrong += end.status == 2 && std::string(end.what()).find("hint: ") != std::string::npos ? 0 : 1;
    }
  }
  record.set("trials", setting.trials);
  record.set("ready_s", {{"p50", rounded(percentile(ready, 0.5))}, {"max", rounded(percentile(ready, 1))}});
  record.set("refused_s", {{"p50", rounded(percentile(refused, 0.5))}, {"max", rounded(percentile(refused, 1))}});
  record.set("resident_mib", rounded(resident));
  record.at_most("seconds from its start to its first answer on /ready, slowest", rounded(percentile(ready, 1)), 1);
  record.at_most("seconds until a wrong flag is refused, slowest", rounded(percentile(refused, 1)), 0.1);
  record.at_most("not ready, or not refused with status 2 and a hint", wrong, 0);
}

}  // namespace exeunt::load
