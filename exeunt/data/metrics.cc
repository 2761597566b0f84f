// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// In the order of the enumeration.
constexpr std::array<std::string_view, 9> kNames = {"accuracy",    "f1",        "matthews_correlation",
                                                    "pearson",     "spearmanr", "combined_score",
                                                    "exact_match", "micro_f1",  "macro_f1"};

// Neumaier's compensated sum: the error stays a few ulps however many terms there are.
class Sum {
 public:
  void add(double term) noexcept {
    const double next = sum_ + term;
    lost_ += std::fabs(sum_) >= std::fabs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  [[nodiscard]] double value() const noexcept { return sum_ + lost_; }

 private:
  double sum_ = 0, lost_ = 0;
};

// Multiplies all by one power of two, exactly, so that the largest magnitude is about 1 and squares stay in range.
void bring_near_one(std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  for (double& value : values) value = std::scalbn(value, -exponent);
}

// `values` moved to mean 0 and scaled to length 1; empty if they are constant or not finite.
std::vector<double> standardised(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  if (!std::all_of(out.begin(), out.end(), [](double value) { return std::isfinite(value); })) return {};
  if (std::all_of(out.begin(), out.end(), [&](double value) { return value == out.front(); })) return {};
  bring_near_one(out);
  Sum total;
  for (const double value : out) total.add(value);
  const double mean = total.value() / static_cast<double>(out.size());
  for (double& value : out) value -= mean;
  bring_near_one(out);
  Sum squares;
  for (const double value : out) squares.add(value * value);
  const double length = std::sqrt(squares.value());
  if (length == 0) return {};  // subnormal differences between huge values
  for (double& value : out) value /= length;
  return out;
}

// Average ranks from 1: ties share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double rank = (static_cast<double>(first + 1) + static_cast<double>(end)) / 2;
    for (size_t i = first; i < end; ++i) out[order[i]] = rank;
    first = end;
  }
  return out;
}

std::vector<int> as_classes(std::span<const float> values) {
  std::vector<int> out;
  out.reserve(values.size());
  for (const float value : values) {
    check(value >= 0 && value < 1e9F && value == std::floor(value), "class indices are whole and not negative");
    out.push_back(static_cast<int>(value));
  }
  return out;
}

double ratio(double part, double whole) noexcept {
  return whole == 0 ? 0 : part / whole;
}

// Everything that follows from the counts. Classes that never occur are part of the mean of sets alone.
void fill_figures(ClassReport& report, bool sets) noexcept {
  double right = 0, all_said = 0, all_support = 0, f1_sum = 0, weighted = 0, averaged = 0;
  for (ClassFigures& figures : report.classes) {
    const auto hits = static_cast<double>(figures.right), support = static_cast<double>(figures.support),
               said = static_cast<double>(figures.predicted);
    figures.precision = ratio(hits, said);
    figures.recall = ratio(hits, support);
    figures.f1 = ratio(2 * hits, said + support);
    right += hits;
    all_said += said;
    all_support += support;
    f1_sum += figures.f1;
    weighted += figures.f1 * support;
    averaged += sets || said + support > 0 ? 1 : 0;
  }
  report.macro_f1 = ratio(f1_sum, averaged);
  report.micro_f1 = ratio(2 * right, all_said + all_support);
  report.weighted_f1 = ratio(weighted, all_support);
}

}  // namespace

std::string_view name_of(Metric metric) noexcept {
  return kNames[static_cast<size_t>(metric)];
}

std::optional<Metric> metric_named(std::string_view name) noexcept {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Metric>(found - kNames.begin());
}

double accuracy(std::span<const int> predicted, std::span<const int> gold) {
  check(predicted.size() == gold.size(), "one prediction per gold label");
  size_t right = 0;
  for (size_t i = 0; i < gold.size(); ++i) right += predicted[i] == gold[i] ? 1 : 0;
  return gold.empty() ? kNaN : static_cast<double>(right) / static_cast<double>(gold.size());
}

double f1(std::span<const int> predicted, std::span<const int> gold, int positive) {
  check(predicted.size() == gold.size(), "one prediction per gold label");
  int64_t both = 0, either = 0;  // TP, and TP + FP + TP + FN
  for (size_t i = 0; i < gold.size(); ++i) {
    both += predicted[i] == positive && gold[i] == positive ? 1 : 0;
    either += (predicted[i] == positive ? 1 : 0) + (gold[i] == positive ? 1 : 0);
  }
  return either == 0 ? 0 : 2.0 * static_cast<double>(both) / static_cast<double>(either);
}

double matthews_correlation(std::span<const int> predicted, std::span<const int> gold) {
  check(predicted.size() == gold.size(), "one prediction per gold label");
  // With s samples, c correct, t_k of class k, p_k predicted k: (c s - Σ t_k p_k) / √((s² - Σ p_k²)(s² - Σ t_k²)).
  std::map<int, std::pair<int64_t, int64_t>> counts;  // class → (t_k, p_k)
  int64_t right = 0;
  for (size_t i = 0; i < gold.size(); ++i) {
    ++counts[gold[i]].first;
    ++counts[predicted[i]].second;
    right += predicted[i] == gold[i] ? 1 : 0;
  }
  const auto samples = static_cast<int64_t>(gold.size());
  check(samples < (int64_t{1} << 31), "counts squared fit 64 bits");
  int64_t covariance = right * samples, gold_variance = samples * samples, predicted_variance = samples * samples;
  for (const auto& [label, count] : counts) {
    covariance -= count.first * count.second;
    gold_variance -= count.first * count.first;
    predicted_variance -= count.second * count.second;
  }
  if (gold_variance == 0 || predicted_variance == 0) return 0;
  const double scale =
      std::sqrt(static_cast<double>(gold_variance)) * std::sqrt(static_cast<double>(predicted_variance));
  return std::clamp(static_cast<double>(covariance) / scale, -1.0, 1.0);
}

double pearson(std::span<const double> predicted, std::span<const double> gold) {
  check(predicted.size() == gold.size(), "one prediction per gold value");
  if (gold.size() < 2) return kNaN;
  const std::vector<double> x = standardised(predicted);
  const std::vector<double> y = standardised(gold);
  if (x.empty() || y.empty()) return kNaN;
  Sum product;
  for (size_t i = 0; i < x.size(); ++i) product.add(x[i] * y[i]);
  return std::clamp(product.value(), -1.0, 1.0);
}

double spearmanr(std::span<const double> predicted, std::span<const double> gold) {
  check(predicted.size() == gold.size(), "one prediction per gold value");
  const auto not_a_number = [](double value) { return std::isnan(value); };
  if (std::any_of(predicted.begin(), predicted.end(), not_a_number)) return kNaN;
  if (std::any_of(gold.begin(), gold.end(), not_a_number)) return kNaN;
  return pearson(ranks(predicted), ranks(gold));
}

std::vector<Score> score(std::span<const Metric> metrics, std::span<const float> predicted, std::span<const float> gold,
                         int positive) {
  check(predicted.size() == gold.size(), "one prediction per example");
  for (size_t row = 0; row < gold.size(); ++row) {
    if (std::isnan(gold[row])) throw Error(Code::usage, fmt::format("row {}: no gold label to score against", row));
  }
  const bool classes = std::any_of(metrics.begin(), metrics.end(), [](Metric metric) {
    return metric == Metric::accuracy || metric == Metric::f1 || metric == Metric::matthews_correlation;
  });
  const auto predicted_classes = classes ? as_classes(predicted) : std::vector<int>{};
  const auto gold_classes = classes ? as_classes(gold) : std::vector<int>{};
  const std::vector<double> predicted_values(predicted.begin(), predicted.end());
  const std::vector<double> gold_values(gold.begin(), gold.end());
  std::vector<Score> out;
  double sum = 0;
  for (const Metric metric : metrics) {
    double value = 0;
    switch (metric) {
      case Metric::accuracy:
        value = accuracy(predicted_classes, gold_classes);
        break;
      case Metric::f1:
        value = f1(predicted_classes, gold_classes, positive);
        break;
      case Metric::matthews_correlation:
        value = matthews_correlation(predicted_classes, gold_classes);
        break;
      case Metric::pearson:
        value = pearson(predicted_values, gold_values);
        break;
      case Metric::spearmanr:
        value = spearmanr(predicted_values, gold_values);
        break;
      case Metric::combined_score:
      case Metric::exact_match:  // of sets, which are scored elsewhere
      case Metric::micro_f1:
      case Metric::macro_f1:
        continue;
    }
    sum += value;
    out.push_back({metric, value});
  }
  const auto place = std::find(metrics.begin(), metrics.end(), Metric::combined_score);
  if (place != metrics.end()) {
    const double mean = out.empty() ? kNaN : sum / static_cast<double>(out.size());
    out.insert(out.begin() + (place - metrics.begin()), {Metric::combined_score, mean});
  }
  return out;
}

std::vector<Metric> default_metrics(Problem problem, size_t labels) {
  switch (problem) {
    case Problem::classification:
      break;
    case Problem::multi_label:
      return {Metric::exact_match, Metric::micro_f1, Metric::macro_f1};
    case Problem::regression:
      return {Metric::pearson, Metric::spearmanr, Metric::combined_score};
  }
  if (labels == 2) return {Metric::accuracy, Metric::f1, Metric::matthews_correlation};
  return {Metric::accuracy, Metric::matthews_correlation};
}

ClassReport class_report(std::span<const float> predicted, std::span<const float> gold, size_t labels) {
  check(predicted.size() == gold.size(), "one prediction per row");
  ClassReport out{.classes = std::vector<ClassFigures>(labels), .confusion = std::vector<int64_t>(labels * labels)};
  for (size_t row = 0; row < gold.size(); ++row) {
    const auto is = static_cast<size_t>(gold[row]), said = static_cast<size_t>(predicted[row]);
    check(is < labels && said < labels, "labels are indices");
    ++out.confusion[is * labels + said];
    ++out.classes[is].support;
    ++out.classes[said].predicted;
    if (is == said) ++out.classes[is].right;
  }
  fill_figures(out, false);
  return out;
}

ClassReport set_report(std::span<const float> predicted, std::span<const float> gold, size_t labels) {
  check(predicted.size() == gold.size() && labels > 0 && gold.size() % labels == 0, "one decision per row and label");
  ClassReport out{.classes = std::vector<ClassFigures>(labels), .confusion = {}};
  for (size_t i = 0; i < gold.size(); ++i) {
    ClassFigures& figures = out.classes[i % labels];
    const bool is = gold[i] == 1, said = predicted[i] == 1;
    figures.support += is ? 1 : 0;
    figures.predicted += said ? 1 : 0;
    figures.right += is && said ? 1 : 0;
  }
  fill_figures(out, true);
  return out;
}

std::vector<ConfusedPair> ClassReport::worst(size_t count) const {
  std::vector<ConfusedPair> pairs;
  for (size_t gold = 0; gold < classes.size(); ++gold) {
    for (size_t answer = 0; answer < classes.size(); ++answer) {
      if (gold != answer && at(gold, answer) > 0) pairs.push_back({gold, answer, at(gold, answer)});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.rows > b.rows; });
  pairs.resize(std::min(count, pairs.size()));
  return pairs;
}

double exact_match(std::span<const float> predicted, std::span<const float> gold, size_t labels) {
  const size_t rows = gold.size() / labels;
  if (rows == 0) return kNaN;
  size_t right = 0;
  for (size_t row = 0; row < rows; ++row) {
    const auto one = predicted.subspan(row * labels, labels), other = gold.subspan(row * labels, labels);
    right += std::equal(one.begin(), one.end(), other.begin()) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

std::vector<Score> score_sets(std::span<const Metric> metrics, std::span<const float> predicted,
                              std::span<const float> gold, size_t labels) {
  const ClassReport report = set_report(predicted, gold, labels);
  std::vector<Score> out;
  for (const Metric metric : metrics) {
    if (metric == Metric::exact_match) out.push_back({metric, exact_match(predicted, gold, labels)});
    if (metric == Metric::micro_f1) out.push_back({metric, report.micro_f1});
    if (metric == Metric::macro_f1) out.push_back({metric, report.macro_f1});
  }
  return out;
}

}  // namespace exeunt
