// SPDX-License-Identifier: Apache-2.0
// What training minimises, from all exits' logits and the gold of a batch. ℓ_i is the mean cross entropy of the exit
// after layer i, or the mean squared error of a regression; the last exit is L.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exeunt/recipes/recipe.h"
#include "exeunt/train/network.h"

namespace exeunt::nn {

struct LossInput {
  const ExitOutputs& outputs;
  Tensor gold;        // [rows] int64 labels, or fp32 values of a regression; multi_label: [rows, outputs] fp32, 1 or 0
  int64_t batch = 0;  // its number within the epoch, from 0: some objectives take turns
  Tensor teacher = {};  // [rows, outputs], of the EMA teacher; undefined without one
};

// The part that comes from the last exit and the part that comes from the others: the projection treats them apart.
// Either may be undefined; what is minimised is their sum.
struct Loss {
  Tensor last, early;
  [[nodiscard]] Tensor total() const;
};

struct ObjectiveContext {
  std::vector<int> layers = {};               // of the exits, rising
  Problem problem = Problem::classification;  // multi_label: the mean cross entropy of each label's yes and no
  bool lte = false;  // adds M = mean over exits and rows of (u − g)², g = 1 where the exit is wrong, detached
  KlReduction kl = KlReduction::element;
  double label_smoothing = 0;  // ε: the share of every label that all classes get alike
};

// A module, so that learned weights are parameters.
class Objective : public torch::nn::Module {
 public:
  explicit Objective(ObjectiveContext context) : context_(std::move(context)) {}
  [[nodiscard]] virtual Loss loss(const LossInput& input) const = 0;
  // The one exit whose loss batch `batch` needs, or nothing if it needs several.
  [[nodiscard]] virtual std::optional<int> only(int64_t batch) const = 0;
  // Whether batch `batch` needs every exit's loss. An exit outside the loss gets no gradient at all, not even a zero:
  // the optimiser leaves it alone.
  [[nodiscard]] virtual bool whole(int64_t batch) const { return !only(batch); }
  // Batches with the same phase are computed by the same formula.
  [[nodiscard]] virtual int64_t phase(int64_t) const { return 0; }
  // The present weights of the exits' losses, if they are learned; else empty.
  [[nodiscard]] virtual std::vector<double> learned_weights() const { return {}; }

 protected:
  [[nodiscard]] int exits() const { return static_cast<int>(context_.layers.size()); }
  [[nodiscard]] int last() const { return exits() - 1; }
  [[nodiscard]] Tensor loss_of(const Tensor& logits, const Tensor& gold) const;
  // (1 − ε) nll + ε × the mean of −ln p over classes; both averaged over rows, the last dimension of `nll`.
  [[nodiscard]] Tensor smoothed(const Tensor& nll, const Tensor& log_p) const;
  // Several labels: the cross entropy of `logits` [..., rows, outputs], averaged over the last two dimensions.
  [[nodiscard]] Tensor set_losses(const Tensor& logits, const Tensor& gold) const;
  // [exits, rows, outputs] of all exits, and ℓ of each, [exits].
  [[nodiscard]] static Tensor all_logits(const LossInput& input);
  [[nodiscard]] Tensor exit_losses(const LossInput& input) const;
  // Σ weights_i ℓ_i apart for the last exit and the others, and M where there is a learning-to-exit head.
  [[nodiscard]] Loss weighted(const LossInput& input, const std::vector<double>& weights) const;
  void add_lte_loss(const LossInput& input, Loss& loss) const;

  ObjectiveContext context_;

 private:
  mutable std::map<std::vector<double>, Tensor> weight_tensors_;  // where the logits are, made when first used
};

// Throws Error (usage) if the objective names a layer without an exit.
[[nodiscard]] std::shared_ptr<Objective> make_objective(const ObjectiveSpec& spec, const ObjectiveContext& context);

}  // namespace exeunt::nn
