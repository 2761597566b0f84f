// SPDX-License-Identifier: Apache-2.0
// Steps of pretraining: one by one, or on a GPU recorded once for each group of exits and then replayed
// (step_graphs.h).
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exeunt/train/adamw.h"
#include "exeunt/train/gpu.h"
#include "exeunt/train/recorded_adam.h"
#include "exeunt/train/schedule.h"
#include "lab/pretrain/pretrain_network.h"

namespace exeunt::nn {

struct PretrainStepOptions {
  double lr = 2e-4, weight_decay = 0.01, epsilon = 1e-6, clip = 1;
  Schedule schedule = {};
  int groups = 2;
  bool equilibrium = true;
  bool bf16 = false;    // CUDA alone
  bool record = false;  // CUDA alone
};

struct PretrainReport {
  double gradient_norm = 0, rate = 0;
  std::vector<std::optional<double>> tokens = {}, order = {};  // losses by exit; nothing for exits that were not active
  [[nodiscard]] double loss() const;                           // their sum
};

class PretrainStepper {
 public:
  PretrainStepper(PretrainNetwork network, const PretrainStepOptions& options);
  ~PretrainStepper();

  // A step that may still be under way; report() waits for it.
  class Pending {
   public:
    [[nodiscard]] PretrainReport report();

   private:
    friend class PretrainStepper;
    std::optional<gpu::Sent> sent_;
    Tensor values_;  // where nothing was sent
    std::vector<bool> active_;
    double rate_ = 0;
  };
  // Whether batches are to be packed: where layers are fused, padding would only cost time.
  [[nodiscard]] bool packs();
  // `batch` lies in the host's memory.
  [[nodiscard]] Pending step(const PretrainTensors& batch);

  [[nodiscard]] AdamW& adam() noexcept { return adam_; }
  [[nodiscard]] PretrainNetwork& network() noexcept { return network_; }
  [[nodiscard]] int64_t steps_done() const noexcept { return done_; }
  void set_steps_done(int64_t done) noexcept { done_ = done; }

  // Losses of all exits without a step and without dropout, [2, exits].
  [[nodiscard]] Tensor evaluate(const PretrainTensors& batch);

 private:
  struct Recorded;
  struct Shape {
    std::vector<bool> active;
    int64_t rows = 0, tokens = 0, predictions = 0;
    auto operator<=>(const Shape&) const = default;
  };
  [[nodiscard]] std::vector<AdamSlot> make_slots();
  // Forward and backward; both losses of the active exits, [2, active].
  [[nodiscard]] Tensor accumulate(const PretrainTensors& batch, const std::vector<bool>& active);
  [[nodiscard]] std::vector<Tensor> given_gradients() const;
  void zero_grad();
  void work(Recorded& entry, const std::vector<bool>& active);
  [[nodiscard]] std::unique_ptr<Recorded> record(const PretrainTensors& batch, const std::vector<bool>& active);
  [[nodiscard]] Pending play(const PretrainTensors& batch, const std::vector<bool>& active);
  [[nodiscard]] Pending step_now(const PretrainTensors& batch, const std::vector<bool>& active);

  PretrainNetwork network_{nullptr};
  PretrainStepOptions options_;
  std::vector<Tensor> parameters_;
  AdamW adam_;
  int64_t done_ = 0;
  std::unique_ptr<gpu::Pool> pool_;  // where steps are recorded
  std::optional<RecordedAdam> update_;
  Tensor report_;
  std::map<Shape, std::unique_ptr<Recorded>> recorded_;
};

}  // namespace exeunt::nn
