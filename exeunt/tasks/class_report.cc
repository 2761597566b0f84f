// SPDX-License-Identifier: Apache-2.0
#include "exeunt/tasks/class_report.h"

#include <algorithm>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

double ratio(double part, double whole) noexcept {
  return whole == 0 ? 0 : part / whole;
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
  double right = 0, f1_sum = 0, weighted = 0, occurring = 0;
  for (ClassFigures& figures : out.classes) {
    const auto hits = static_cast<double>(figures.right), support = static_cast<double>(figures.support),
               said = static_cast<double>(figures.predicted);
    figures.precision = ratio(hits, said);
    figures.recall = ratio(hits, support);
    figures.f1 = ratio(2 * hits, said + support);
    right += hits;
    f1_sum += figures.f1;
    weighted += figures.f1 * support;
    occurring += said + support > 0 ? 1 : 0;
  }
  const auto rows = static_cast<double>(gold.size());
  out.macro_f1 = ratio(f1_sum, occurring);
  out.micro_f1 = ratio(right, rows);
  out.weighted_f1 = ratio(weighted, rows);
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

}  // namespace exeunt
