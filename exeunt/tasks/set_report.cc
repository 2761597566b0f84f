// SPDX-License-Identifier: Apache-2.0
#include "exeunt/tasks/set_report.h"

#include <algorithm>
#include <limits>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

double share(double part, double whole) noexcept {
  return whole == 0 ? 0 : part / whole;
}

}  // namespace

ClassReport set_report(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels) {
  check(predicted.size() == gold.size() && labels > 0 && gold.size() % labels == 0, "one decision per row and label");
  ClassReport out{.classes = std::vector<ClassFigures>(labels), .confusion = {}};
  for (size_t i = 0; i < gold.size(); ++i) {
    ClassFigures& figures = out.classes[i % labels];
    figures.support += gold[i];
    figures.predicted += predicted[i];
    figures.right += gold[i] != 0 && predicted[i] != 0 ? 1 : 0;
  }
  double right = 0, said_or_is = 0, support = 0;
  for (ClassFigures& figures : out.classes) {
    const auto hits = static_cast<double>(figures.right), is = static_cast<double>(figures.support),
               said = static_cast<double>(figures.predicted);
    figures.precision = share(hits, said);
    figures.recall = share(hits, is);
    figures.f1 = share(2 * hits, said + is);
    out.macro_f1 += figures.f1 / static_cast<double>(labels);
    out.weighted_f1 += figures.f1 * is;
    right += hits;
    said_or_is += said + is;
    support += is;
  }
  out.micro_f1 = share(2 * right, said_or_is);
  out.weighted_f1 = share(out.weighted_f1, support);
  return out;
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
