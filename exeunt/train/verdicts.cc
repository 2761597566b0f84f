// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/verdicts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "exeunt/eval/scores.h"

namespace exeunt {
namespace {

// By the mean loss of each epoch of the last stage. Training has converged where the training rows are answered right,
// or where the loss no longer falls. Rows without one right answer (regressions, several labels) count as learned when
// most of the loss is gone; of classes the loss alone does not tell, because smoothed labels leave much of it.
std::string not_converged(const OrderedJson& results) {
  constexpr size_t kLeastEpochs = 3;
  constexpr double kRight = 0.9, kMost = 0.5, kStill = 0.97;
  const auto losses = results.value("train_epoch_losses", std::vector<double>{});
  if (losses.size() < kLeastEpochs) return {};
  const double first = losses.front(), before = losses[losses.size() - 2], last = losses.back();
  const OrderedJson right = results.value("train_accuracy", OrderedJson());
  if (right.is_number() ? right.get<double>() >= kRight : last <= kMost * first) return {};
  if (last >= kStill * before) return {};
  const std::string learned =
      right.is_number() ? fmt::format(", training accuracy {:.0f} %", 100 * right.get<double>()) : std::string();
  return fmt::format(
      "training has not converged: the loss was still falling, from {:.3g} in the first epoch to {:.3g} and {:.3g} in "
      "the "
      "last two{}; --epochs {} trains longer",
      first, before, last, learned, 2 * losses.size());
}

// Layer and score of each.
std::vector<std::pair<int, double>> exits_of(const OrderedJson& results, Metric metric) {
  std::vector<std::pair<int, double>> out;
  for (const OrderedJson& exit : results.value("exits", OrderedJson::array())) {
    const OrderedJson score = exit.value(std::string(name_of(metric)), OrderedJson());
    out.emplace_back(exit.at("layer").get<int>(), score.is_number() ? score.get<double>() : 0.0);
  }
  return out;
}

}  // namespace

std::vector<std::string> verdicts_on(const OrderedJson& results, const TrainingData& data) {
  std::vector<std::string> out;
  if (const std::string text = not_converged(results); !text.empty()) out.push_back(text);
  const std::vector<std::pair<int, double>> exits = exits_of(results, data.primary);
  if (exits.empty()) return out;
  const auto [last_layer, last] = exits.back();
  const auto [best_layer, best] =
      *std::max_element(exits.begin(), exits.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (clearly_better(best, last, data.eval.rows())) {
    out.push_back(
        fmt::format("the exit after layer {} is the best, {} {:.2f} against {:.2f} at the last, which every promise is "
                    "measured against: --layers {} trains a model that ends there",
                    best_layer, name_of(data.primary), 100 * best, 100 * last, best_layer));
  }
  return out;
}

std::string lost_to_baseline(const OrderedJson& results, const TrainingData& data) {
  const auto exits = exits_of(results, data.primary);
  return exits.empty() ? std::string() : lost_to_baseline(data.baseline, data.primary, exits.back().second);
}

}  // namespace exeunt
