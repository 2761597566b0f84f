// SPDX-License-Identifier: Apache-2.0
// A network with the two tasks of ElasticBERT's pretraining at every exit: the masked tokens, through one head that all
// exits share, and the order of two halves of a text, through each exit's own pooler and classifier.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exeunt/train/adamw.h"
#include "exeunt/train/network.h"
#include "exeunt/train/stage_plan.h"
#include "exeunt/train/step_graphs.h"
#include "exeunt/train/world.h"
#include "lab/pretrain/pretrain_rows.h"

namespace exeunt::nn {

// A batch as tensors. Weights are divided by its counts, so that the weighted sums of a step's batches add up to a
// mean.
struct PretrainTensors {
  TextBatch texts;
  Tensor places;               // [rows + predictions] int64: each row's first token, then the masked ones
  Tensor gold, weight;         // [predictions]
  Tensor order, order_weight;  // [rows]
};
// On `device`.
[[nodiscard]] PretrainTensors pretrain_tensors(const PretrainBatch& batch, const PretrainShape& shape,
                                               const torch::Device& device = torch::kCPU);

// norm(act(dense x)), then one row of the word table for each token: BERT's head, tied to the embeddings.
class TokenHeadImpl : public torch::nn::Module {
 public:
  explicit TokenHeadImpl(const ModelSpec& spec);
  [[nodiscard]] Tensor transformed(const Tensor& rows);
  [[nodiscard]] const Tensor& bias() const noexcept { return bias_; }

 private:
  Activation activation_;
  torch::nn::Linear dense_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  Tensor bias_;
};
TORCH_MODULE(TokenHead);

// The mean cross entropy of `gold` over the whole vocabulary, for each of `groups` equal parts of x [n, columns], as
// Σ weight · loss. One pass over the logits each way: they are turned into their gradients where they lie. On a GPU
// products and logits are bf16.
struct TokenLossInput {
  Tensor x, table, bias;  // table [vocabulary, columns]
  Tensor gold, weight;    // [n / groups] each
  int64_t groups = 1;
};
[[nodiscard]] Tensor token_losses(const TokenLossInput& input);  // [groups]

// Exits after every layer with two labels; poolers and classifiers of their own.
[[nodiscard]] ExitLayout pretrain_layout(const ModelSpec& spec);

class PretrainNetworkImpl : public torch::nn::Module {
 public:
  PretrainNetworkImpl(Network network, TokenHead head);

  // Both losses of each exit in `active` [exits]: [2, number of active ones], tokens first.
  [[nodiscard]] Tensor losses(const PretrainTensors& batch, const std::vector<bool>& active, bool equilibrium);

  [[nodiscard]] Network& network() noexcept { return network_; }
  [[nodiscard]] TokenHead& head() noexcept { return head_; }

 private:
  Network network_{nullptr};
  TokenHead head_{nullptr};
  Tensor table_;  // of words, which the head is tied to
};
TORCH_MODULE(PretrainNetwork);

// Exits of a group: every `groups`-th, and the last (ElasticBERT's grouped training).
[[nodiscard]] std::vector<bool> active_exits(int layers, int groups, int64_t step);

// What pretraining leaves: the backbone with a pooler after every layer (BERT's shape, which is ElasticBERT's) or with
// the last one's (the other families), without heads.
[[nodiscard]] Checkpoint pretrained_backbone(const NetworkImpl& network, Origin origin);

// Steps of pretraining: the losses of one group of exits, clipped gradients, AdamW.
struct PretrainStepOptions {
  double lr = 2e-4, weight_decay = 0.01, epsilon = 1e-6, clip = 1;
  Schedule schedule = {};
  int groups = 2;
  bool equilibrium = true;
  bool bf16 = false;             // CUDA alone
  const World* world = nullptr;  // whose gradients are all-reduced; null = this one alone
};

struct PretrainReport {
  double gradient_norm = 0, rate = 0;
  std::vector<std::optional<double>> tokens = {}, order = {};  // losses by exit; nothing for exits that were not active
  [[nodiscard]] double loss() const;                           // their sum
};

class PretrainStepper {
 public:
  PretrainStepper(PretrainNetwork network, const PretrainStepOptions& options);

  // One step on all of `batches`, which are this process's part of it; none is a part, too.
  PretrainReport step(std::span<const PretrainTensors> batches);
  // Losses of all exits without a step and without dropout, [2, exits].
  [[nodiscard]] Tensor evaluate(const PretrainTensors& batch);

  [[nodiscard]] AdamW& adam() noexcept { return adam_; }
  [[nodiscard]] int64_t steps_done() const noexcept { return done_; }
  void set_steps_done(int64_t done) noexcept { done_ = done; }

 private:
  [[nodiscard]] std::vector<AdamSlot> make_slots();
  // Losses as PretrainNetwork has them, and the gradient of each slot; valid until the next call.
  [[nodiscard]] std::vector<Tensor> pass(const PretrainTensors& batch, const std::vector<bool>& active);

  PretrainNetwork network_{nullptr};
  PretrainStepOptions options_;
  AdamW adam_;
  StepGraphs graphs_;  // of pass()
  int64_t done_ = 0;
};

}  // namespace exeunt::nn
