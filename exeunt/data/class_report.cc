// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/class_report.h"

#include <algorithm>
#include <limits>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

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

ClassReport set_report(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels) {
  check(predicted.size() == gold.size() && labels > 0 && gold.size() % labels == 0, "one decision per row and label");
  ClassReport out{.classes = std::vector<ClassFigures>(labels), .confusion = {}};
  for (size_t i = 0; i < gold.size(); ++i) {
    ClassFigures& figures = out.classes[i % labels];
    figures.support += gold[i];
    figures.predicted += predicted[i];
    figures.right += gold[i] != 0 && predicted[i] != 0 ? 1 : 0;
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

double exact_match(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels) {
  const size_t rows = gold.size() / labels;
  if (rows == 0) return std::numeric_limits<double>::quiet_NaN();
  size_t right = 0;
  for (size_t row = 0; row < rows; ++row) {
    const auto one = predicted.subspan(row * labels, labels), other = gold.subspan(row * labels, labels);
    right += std::equal(one.begin(), one.end(), other.begin()) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

std::vector<Score> score_sets(std::span<const Metric> metrics, std::span<const uint8_t> predicted,
                              std::span<const uint8_t> gold, size_t labels) {
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
