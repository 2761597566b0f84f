// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/temperature.h"

#include <algorithm>
#include <cmath>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

struct Slope {
  double first = 0, second = 0;  // means of the derivatives of l(b) by b = 1 / T
};

// Weight of the prior of decision temperatures, that of one observation of ln T = 0 with variance 1/2.
constexpr double kShrink = 1;

// l(b) = ln sum_c e^(b z_c) - b z_y is convex in b: l' = E_p[z] - z_y, l'' = Var_p[z].
Slope slope_at(const ExitTrace& trace, int exit, std::span<const int> targets, double b) {
  Slope total;
  for (size_t row = 0; row < trace.rows; ++row) {
    const std::span<const float> z = trace.at(row, exit);
    const double peak = *std::max_element(z.begin(), z.end());
    double sum = 0, mean = 0, square = 0;
    for (const float logit : z) {
      const double d = static_cast<double>(logit) - peak, weight = std::exp(b * d);
      sum += weight;
      mean += weight * d;
      square += weight * d * d;
    }
    mean /= sum;
    const double target = static_cast<double>(z[static_cast<size_t>(targets[row])]) - peak;
    total.first += mean - target;
    total.second += square / sum - mean * mean;
  }
  const auto rows = static_cast<double>(trace.rows);
  return {total.first / rows, total.second / rows};
}

// The same for sets: of each label, l(b) = ln(1 + e^(-b s d)) with d = z - threshold and s = 1 where full depth gives
// the label, -1 where not; l' = -s d q, l'' = d^2 q (1 - q) with q = 1 / (1 + e^(b s d)).
Slope set_slope_at(const ExitTrace& trace, int exit, double b) {
  Slope total;
  for (size_t row = 0; row < trace.rows; ++row) {
    const ExitLogits own = trace.exit_logits(trace.at(row, exit)), full = trace.exit_logits(trace.full_depth(row));
    for (int c = 0; c < trace.width; ++c) {
      const double d =
          static_cast<double>(own.logits[c]) - (own.logit_thresholds == nullptr ? 0.0F : own.logit_thresholds[c]);
      const double signed_d = has_label(full, c) ? d : -d, q = 1 / (1 + std::exp(b * signed_d));
      total.first -= signed_d * q;
      total.second += d * d * q * (1 - q);
    }
  }
  const auto rows = static_cast<double>(trace.rows);
  return {total.first / rows, total.second / rows};
}

// Of slope(b), mean over `rows` rows, with the weight of the prior; b = 1 / T.
template <class SlopeAt>
float best_temperature(SlopeAt&& slope_of, double weight) {
  const auto slope_with = [&](double b) {  // of l(b) + weight (ln b)^2, whose minimum is sought
    Slope slope = slope_of(b);
    slope.first += 2 * weight * std::log(b) / b;
    slope.second += 2 * weight * (1 - std::log(b)) / (b * b);
    return slope;
  };
  // Newton's step if it stays between the bounds set by the sign of the slope, else their geometric mean.
  double low = 1.0 / kMaxTemperature, high = 1.0 / kMinTemperature;
  if (slope_with(low).first >= 0) return kMaxTemperature;
  if (slope_with(high).first <= 0) return kMinTemperature;
  double b = 1;
  for (int i = 0; i < 100 && high - low > 1e-9 * high; ++i) {
    const Slope slope = slope_with(b);
    (slope.first > 0 ? high : low) = b;
    const double step = slope.second > 0 ? b - slope.first / slope.second : low;
    const double next = step > low && step < high ? step : std::sqrt(low * high);
    if (std::abs(next - b) <= 1e-9 * b) break;
    b = next;
  }
  return static_cast<float>(1 / b);
}

}  // namespace

float fit_temperature(const ExitTrace& trace, int exit, std::span<const int> targets, double shrink) {
  check(targets.size() == trace.rows && trace.width > 1, "one target label per row");
  return best_temperature([&](double b) { return slope_at(trace, exit, targets, b); },
                          shrink / static_cast<double>(trace.rows));
}

std::vector<float> decision_temperatures(const ExitTrace& trace) {
  std::vector<float> temperatures(static_cast<size_t>(trace.exits), 1.0F);
  std::vector<int> targets;
  for (size_t row = 0; row < trace.rows; ++row) targets.push_back(best_label(trace.info, trace.full_depth(row)));
  for (int exit = 0; exit + 1 < trace.exits; ++exit) {
    float& temperature = temperatures[static_cast<size_t>(exit)];
    switch (trace.info.problem) {
      case Problem::classification:
        temperature = fit_temperature(trace, exit, targets, kShrink);
        break;
      case Problem::multi_label:
        temperature = best_temperature([&](double b) { return set_slope_at(trace, exit, b); },
                                       kShrink / static_cast<double>(trace.rows));
        break;
      case Problem::regression:
        break;
    }
  }
  return temperatures;
}

std::vector<float> score_temperatures(const ExitTrace& trace) {
  std::vector<float> temperatures(static_cast<size_t>(trace.exits), 1.0F);
  if (trace.info.problem != Problem::classification || !trace.labelled()) return temperatures;
  const std::vector<int> targets(trace.gold.begin(), trace.gold.end());
  for (int exit = 0; exit < trace.exits; ++exit)
    temperatures[static_cast<size_t>(exit)] = fit_temperature(trace, exit, targets);
  return temperatures;
}

}  // namespace exeunt
