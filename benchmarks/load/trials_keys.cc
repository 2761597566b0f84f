// SPDX-License-Identifier: Apache-2.0
// Does the time that a wrong key takes tell how much of it is right? Measured at the comparison itself: through a
// network nobody would see more.
#include <array>
#include <chrono>
#include <cmath>
#include <random>
#include <stdexcept>

#include "benchmarks/load/trials.h"
#include "exeunt/serve/access_control.h"

namespace exeunt::load {
namespace {

struct Samples {
  std::vector<float> first = {}, last = {};  // nanoseconds, for a key that is wrong in its first or last character
};

// Welch's t of the two, without the longest twentieth: there the machine did something else.
double t_of(const Samples& samples) {
  std::vector<float> all = samples.first;
  all.insert(all.end(), samples.last.begin(), samples.last.end());
  const double most = percentile(std::move(all), 0.95);
  struct Moments {
    double n = 0, mean = 0, squares = 0;
  };
  const auto moments = [&](const std::vector<float>& values) {
    Moments m;
    for (const float value : values) {
      if (static_cast<double>(value) > most) continue;
      const double step = static_cast<double>(value) - m.mean;
      m.mean += step / ++m.n;
      m.squares += step * (static_cast<double>(value) - m.mean);
    }
    return m;
  };
  const Moments a = moments(samples.first), b = moments(samples.last);
  const double error = a.squares / (a.n - 1) / a.n + b.squares / (b.n - 1) / b.n;
  return error > 0 ? std::abs(a.mean - b.mean) / std::sqrt(error) : 0;
}

// Times one wrong key against two that it could be: it differs from one in its first character, from the other in its
// last. Which is drawn by lot. What is sent stays the same, as its own content costs time too, and tells nothing.
template <class Known, class Allow>
Samples sample(int64_t count, const std::array<Known, 2>& known, const Allow& allow) {
  std::mt19937_64 random(1);
  Samples out;
  int allowed = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t which = random() & 1;
    const auto begun = std::chrono::steady_clock::now();
    allowed += allow(known[which]) ? 1 : 0;
    const auto spent = std::chrono::steady_clock::now() - begun;
    (which == 0 ? out.first : out.last).push_back(std::chrono::duration<float, std::nano>(spent).count());
  }
  if (allowed > 0) throw std::runtime_error("a wrong key was let in");
  return out;
}

// The mistake that is looked for, so that the trial is known to see it.
bool stops_early(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const volatile char left = a[i];  // volatile: one character at a time
    if (left != b[i]) return false;
  }
  return true;
}

}  // namespace

void keys(const Setting& setting, Record& record) {
  const std::string sent = "Bearer 6f1d2c83a94be0574c1f0e8db2a7395860d4c1b7e2f39a8565dc04b71e8f2a93";
  std::array<std::string, 2> wanted = {sent, sent};
  wanted[0][7] ^= 1;
  wanted[1].back() ^= 1;
  const std::array<serve::ApiKeys, 2> known = {serve::ApiKeys({wanted[0].substr(7)}),
                                               serve::ApiKeys({wanted[1].substr(7)})};
  const Samples ours = sample(setting.count, known, [&](const serve::ApiKeys& keys) { return keys.allow(sent); });
  const Samples control = sample(setting.count, wanted, [&](const std::string& key) { return stops_early(key, sent); });
  record.set("samples", setting.count);
  record.set("p50_ns",
             {{"wrong_in_the_first", percentile(ours.first, 0.5)}, {"wrong_in_the_last", percentile(ours.last, 0.5)}});
  record.at_most("t between keys wrong in their first and in their last character", rounded(t_of(ours)), 4.5);
  record.at_least("the same t of a comparison that stops at the first difference", rounded(t_of(control)), 4.5);
}

}  // namespace exeunt::load
