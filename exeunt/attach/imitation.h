// SPDX-License-Identifier: Apache-2.0
// What an attached exit learns: to answer as the last exit of the finished model does, without labels.
//   classes      T² KL(softmax(z_L / T) ‖ softmax(z_i / T)), mean over the texts
//   multi-label  T² Σ KL of the yes or no of each label, by sigmoid((z - threshold) / T), mean over the texts
//   values       (y_i − y_L)², mean over the texts, both in units of the spread of y_L (see Imitation::finish)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/attach/head.h"
#include "exeunt/model/spec.h"

namespace exeunt {

class Imitation {
 public:
  // `teacher` [texts, outputs]: the logits of the last exit of `exits`.
  Imitation(std::span<const float> teacher, const ExitLayout& exits, double temperature);

  [[nodiscard]] size_t texts() const noexcept { return targets_.size() / static_cast<size_t>(outputs_); }

  // The summed loss of `texts` with the logits `student` [texts, outputs] (before finish()). The gradient of their mean
  // loss by the logits goes to `gradient` of the same shape; an empty one is not computed.
  double loss(std::span<const size_t> texts, std::span<const float> student, std::span<float> gradient) const;

  // How many of `texts` get the last exit's label, or the same set of labels; for values, the summed |y_i − y_L| in
  // units of the spread.
  [[nodiscard]] double agreement(std::span<const size_t> texts, std::span<const float> student) const;

  // A head learns values with mean 0 and spread 1, whatever their unit; this makes it answer in the model's unit.
  void finish(HeadArray& weights) const;

  // Of values; 1 and 0 of other answers.
  [[nodiscard]] double spread() const noexcept { return spread_; }
  [[nodiscard]] double mean() const noexcept { return mean_; }
  [[nodiscard]] int outputs() const noexcept { return outputs_; }

 private:
  [[nodiscard]] std::span<const float> target(size_t text) const noexcept;

  // Probabilities of logits into `out`; returns what the logarithm of a probability lacks of its logit, for classes.
  double tempered(std::span<const float> logits, std::span<float> out) const;

  int outputs_;
  OutputSpec meaning_;
  float temperature_;
  double mean_ = 0, spread_ = 1;
  std::vector<float> targets_;  // [texts, outputs] probabilities at the temperature; or values with spread 1
  std::vector<std::vector<int>> labels_ = {};  // [texts] as labels_of() has them; none of values
};

}  // namespace exeunt
