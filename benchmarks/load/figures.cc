// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/figures.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

#include "exeunt/base/parallel.h"
#include "exeunt/base/version.h"

namespace exeunt::load {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

double percentile(std::vector<float> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::clamp<size_t>(rank, 1, values.size()) - 1);
  std::nth_element(values.begin(), at, values.end());
  return static_cast<double>(*at);
}

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

double slope(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xy = 0, xx = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& [px, py] : points) {
    x += px / n;
    y += py / n;
  }
  for (const auto& [px, py] : points) {
    xy += (px - x) * (py - y);
    xx += (px - x) * (px - x);
  }
  return xx > 0 ? xy / xx : 0;
}

Record::Work Record::work_so_far() {
  Work out;
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;  // "cpu", then ticks: user, nice, system, idle, waiting for disks, interrupts of two kinds, stolen
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (int i = 0; i < 8; ++i) {
    double ticks = 0;
    file >> ticks;
    out.all += ticks / tick;
    if (i == 3 || i == 4) out.idle += ticks / tick;
  }
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    for (const timeval& part : {used.ru_utime, used.ru_stime}) {
      out.ours += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) / 1e6;
    }
  }
  return out;
}

Record::Record(std::string trial, std::string command)
    : trial_(std::move(trial)), command_(std::move(command)), work_at_start_(work_so_far()) {
  const std::time_t now = std::time(nullptr);
  char text[32];
  date_.assign(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now)));
}

void Record::promise(const std::string& name, double value, double limit, bool most) {
  const bool kept = most ? value <= limit : value >= limit;
  promises_.push_back({{"figure", name}, {most ? "at_most" : "at_least", limit}, {"got", value}, {"kept", kept}});
  kept_ = kept_ && kept;
}

void Record::at_most(const std::string& name, double value, double limit) {
  promise(name, value, limit, true);
}

void Record::at_least(const std::string& name, double value, double limit) {
  promise(name, value, limit, false);
}

OrderedJson Record::json() const {
  const Work now = work_so_far();
  const double all = now.all - work_at_start_.all, idle = now.idle - work_at_start_.idle;
  const double others = all - idle - (now.ours - work_at_start_.ours);
  OrderedJson out;
  out["trial"] = trial_;
  out["date"] = date_;
  out["commit"] = commit();
  out["command"] = command_;
  out["machine"] = {{"cpu", processor()},
                    {"cores", thread_count(0)},
                    {"share_of_others", rounded(std::clamp(others / std::max(all, 1e-9), 0.0, 1.0))}};
  out["kept"] = kept_;
  out["promises"] = promises_;
  out["figures"] = figures_;
  return out;
}

}  // namespace exeunt::load
