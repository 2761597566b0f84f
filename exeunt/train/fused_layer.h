// SPDX-License-Identifier: Apache-2.0
// The layers of a network as one operation each, with a hand-written backward pass: few launches, rows between layers
// in bf16 on a GPU, matrices rounded to bf16 once a step. Norms, sums and all gradients of weights are fp32.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "exeunt/train/fused_ops.h"
#include "exeunt/train/gpu.h"

namespace exeunt::nn {

// What one batch has in common over all layers.
struct TrunkBatch {
  Tensor mask = {};  // [rows, 1, 1, tokens], or [1, 1, tokens, tokens]: fp32, added to the scores
  Tensor cuts = {};  // of texts in one long row (compat::AttentionBounds); a GPU then needs no mask
  int64_t longest = 0;
  Tensor seed = {};  // [1] int64 of dropout
  bool training = false;
  bool equilibrium = false;
};

class FusedTrunk {
 public:
  // `layers`: each layer's parameters, in the order a Layer registers them. Several may be the same (ALBERT).
  FusedTrunk(const ModelSpec& spec, std::vector<std::vector<Tensor>> layers);
  ~FusedTrunk();

  // Takes the weights as they are now. Call it before the first layer of a batch.
  void begin(const TrunkBatch& batch);
  // `rows` [rows, tokens, hidden] through layer `index`, in the type of precision().
  [[nodiscard]] Tensor layer(const Tensor& rows, int index) const;
  [[nodiscard]] torch::ScalarType precision() const noexcept { return precision_; }

  struct Weights;
  struct Plan;

 private:
  ModelSpec spec_;
  torch::ScalarType precision_;
  std::vector<std::vector<Tensor>> layers_;
  std::vector<Weights> weights_;               // one per layer; those of shared layers share memory
  std::unique_ptr<gpu::TensorWalk> rounding_;  // on a GPU: all weights in one launch
  std::vector<gpu::ListEntry> copies_;         // elsewhere: one by one
  c10::intrusive_ptr<torch::CustomClassHolder> plan_;
};

// Rows on their way up, and beside them what an exit reads there, in fp32: [rows, hidden] of the first token or, with a
// reader's query, [rows, 2 · hidden]. In the backward pass the exit's gradient is added to the rows' in place.
struct Tapped {
  Tensor rows, input;
};
[[nodiscard]] Tapped tap(const Tensor& rows, const Tensor& real, const std::optional<Tensor>& query);
// The same for the rows at `places` [n] int64 of all texts' tokens in a row: [n, hidden] in the type of `rows`.
[[nodiscard]] Tapped tap_places(const Tensor& rows, const Tensor& places);

}  // namespace exeunt::nn
