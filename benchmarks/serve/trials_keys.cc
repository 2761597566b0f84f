// SPDX-License-Identifier: Apache-2.0
// Does the time that a wrong key takes tell how much of it is right? Measured at the comparison itself: through a
// network nobody would see more.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "benchmarks/serve/trials.h"
#include "exeunt/serve/api_key.h"

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

// Times `allow` on one of two wrong keys at a time, drawn by lot.
template <class Allow>
Samples sample(int64_t count, const std::string& key, const Allow& allow) {
  std::string first = "Bearer " + key, last = first;
  first[7] ^= 1;
  last.back() ^= 1;
  std::mt19937_64 random(1);
  Samples out;
  int allowed = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool early = (random() & 1) != 0;
    const auto begun = std::chrono::steady_clock::now();
    allowed += allow(early ? first : last) ? 1 : 0;
    const auto spent = std::chrono::steady_clock::now() - begun;
    (early ? out.first : out.last).push_back(std::chrono::duration<float, std::nano>(spent).count());
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
  const std::string key = "6f1d2c83a94be0574c1f0e8db2a7395860d4c1b7e2f39a8565dc04b71e8f2a93";
  const serve::ApiKeys known({key});
  const Samples ours = sample(setting.count, key, [&](const std::string& sent) { return known.allow(sent); });
  const std::string whole = "Bearer " + key;
  const Samples control = sample(setting.count, key, [&](const std::string& sent) { return stops_early(whole, sent); });
  record.set("samples", setting.count);
  record.set("p50_ns",
             {{"wrong_in_the_first", percentile(ours.first, 0.5)}, {"wrong_in_the_last", percentile(ours.last, 0.5)}});
  record.at_most("t between keys wrong in their first and in their last character", rounded(t_of(ours)), 4.5);
  record.at_least("the same t of a comparison that stops at the first difference", rounded(t_of(control)), 4.5);
}

}  // namespace exeunt::load
