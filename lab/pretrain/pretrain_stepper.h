// SPDX-License-Identifier: Apache-2.0
// Steps of pretraining: the losses of one group of exits, clipped gradients, AdamW.
#pragma once

#include <optional>
#include <vector>

#include "exeunt/train/adamw.h"
#include "exeunt/train/stage_plan.h"
#include "exeunt/train/step_graphs.h"
#include "lab/pretrain/pretrain_network.h"

namespace exeunt::nn {

struct PretrainStepOptions {
  double lr = 2e-4, weight_decay = 0.01, epsilon = 1e-6, clip = 1;
  Schedule schedule = {};
  int groups = 2;
  bool equilibrium = true;
  bool bf16 = false;  // CUDA alone
};

struct PretrainReport {
  double gradient_norm = 0, rate = 0;
  std::vector<std::optional<double>> tokens = {}, order = {};  // losses by exit; nothing for exits that were not active
  [[nodiscard]] double loss() const;                           // their sum
};

class PretrainStepper {
 public:
  PretrainStepper(PretrainNetwork network, const PretrainStepOptions& options);

  PretrainReport step(const PretrainTensors& batch);
  // Losses of all exits without a step and without dropout, [2, exits].
  [[nodiscard]] Tensor evaluate(const PretrainTensors& batch);

  [[nodiscard]] AdamW& adam() noexcept { return adam_; }
  [[nodiscard]] int64_t steps_done() const noexcept { return done_; }
  void set_steps_done(int64_t done) noexcept { done_ = done; }

 private:
  [[nodiscard]] std::vector<AdamSlot> make_slots();
  // Losses as PretrainNetwork has them; their gradients are in the parameters.
  [[nodiscard]] Tensor pass(const PretrainTensors& batch, const std::vector<bool>& active);

  PretrainNetwork network_{nullptr};
  PretrainStepOptions options_;
  AdamW adam_;
  StepGraphs graphs_;  // of pass()
  int64_t done_ = 0;
};

}  // namespace exeunt::nn
