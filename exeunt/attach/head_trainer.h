// SPDX-License-Identifier: Apache-2.0
// Trains one exit. Nothing depends on other threads, so the result is the same for any number of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/attach/head.h"
#include "exeunt/attach/imitation.h"
#include "exeunt/base/fields.h"

namespace exeunt {

struct HeadSettings {
  int epochs = 8, batch = 32;
  double rate = 1e-3;  // highest learning rate: linear warm-up, then linear decay to 0
  double warmup = 0.06;
  double decay = 0.01;  // of all but biases, as in AdamW
  double dropout = 0.1;
  double temperature = 1;
  uint64_t seed = 42;

  // Flags of `exeunt attach` and fields of attach.json.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{"epochs", "Training epochs; the exits of the best one are kept", "--epochs", 1, 1000}, self.epochs);
    visit(Field{"batch", "Texts per step"}, self.batch);
    visit(Field{"lr", "Peak learning rate of the exits", "--lr", 1e-7, 1}, self.rate);
    visit(Field{"temperature", "Distillation temperature", "--temperature", 0.1, 100}, self.temperature);
    visit(Field{"dropout", "Of pooled rows"}, self.dropout);
    visit(Field{"seed", "Of the draw, the split and the heads"}, self.seed);
  }
};

class HeadTrainer {
 public:
  // `number` of the exit seeds its random stream. `steps` is how many there will be.
  HeadTrainer(const HeadShape& shape, const Kernels& kernels, const HeadSettings& settings, int number, int64_t steps);

  // Starts from these weights instead of drawn ones.
  void begin_from(const HeadArray& weights);

  // One step on a batch: texts[i] is the number of rows[i] among the targets.
  void step(const Imitation& targets, std::span<const size_t> texts, std::span<const TextRows> rows);

  // The summed loss and agreement (Imitation::agreement) of texts, without dropout.
  struct Validation {
    double loss = 0, agreement = 0;
  };
  [[nodiscard]] Validation validate(const Imitation& targets, std::span<const size_t> texts,
                                    std::span<const TextRows> rows);

  // Keeps the weights as best() if `loss` is the lowest so far; returns whether it is.
  bool keep_if_best(double loss);
  [[nodiscard]] const HeadArray& best() const noexcept { return best_; }
  [[nodiscard]] const HeadArray& weights() const noexcept { return weights_; }

  // Memory of a trainer, for planning.
  [[nodiscard]] static size_t bytes(const HeadShape& shape) noexcept;

 private:
  void draw_weights();
  void draw_dropout(size_t texts);
  void update();

  HeadSettings settings_;
  uint64_t stream_;  // of random numbers
  int64_t step_ = 0, steps_;
  HeadPass pass_;
  HeadArray weights_, best_, gradient_, mean_, square_;  // mean_ and square_ are AdamW's moments
  double best_loss_;
  std::vector<float> keep_ = {}, logit_gradient_ = {};
};

// 64 random bits for place `index` of a stream.
[[nodiscard]] uint64_t random_bits(uint64_t stream, uint64_t index) noexcept;
// The numbers of the texts in the order of an epoch: each has its own.
[[nodiscard]] std::vector<size_t> epoch_order(size_t texts, uint64_t seed, int epoch);

}  // namespace exeunt
