// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/objective.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"

namespace exeunt::nn {
namespace {

void add_to(Tensor& sum, const Tensor& term) {
  sum = sum.defined() ? sum + term : term;
}

// Σ_i w_i ℓ_i with fixed weights: last, early_sum, sum, linear (w_i = i / Σ i) and limit.
class FixedWeights : public Objective {
 public:
  FixedWeights(ObjectiveContext context, std::vector<double> weights)
      : Objective(std::move(context)), weights_(std::move(weights)) {}

  [[nodiscard]] Loss loss(const LossInput& input) const override { return weighted(input, weights_); }

  [[nodiscard]] std::optional<int> only(int64_t) const override {
    if (context_.lte) return std::nullopt;
    const auto used = [](double weight) { return weight != 0; };
    if (std::count_if(weights_.begin(), weights_.end(), used) != 1) return std::nullopt;
    return static_cast<int>(std::find_if(weights_.begin(), weights_.end(), used) - weights_.begin());
  }

  [[nodiscard]] bool whole(int64_t) const override {
    return std::find(weights_.begin(), weights_.end(), 0.0) == weights_.end();
  }

 private:
  std::vector<double> weights_;
};

// Alternating: ℓ_L on even batches, Σ ℓ_i on odd ones; with a learning-to-exit head the odd ones leave ℓ_L out.
class Alternate : public Objective {
 public:
  using Objective::Objective;

  [[nodiscard]] Loss loss(const LossInput& input) const override {
    std::vector<double> weights(context_.layers.size(), 1.0);
    if (input.batch % 2 == 0) std::fill(weights.begin(), weights.end() - 1, 0.0);
    if (input.batch % 2 == 1 && context_.lte) weights.back() = 0;
    return weighted(input, weights);
  }

  [[nodiscard]] std::optional<int> only(int64_t batch) const override {
    if (context_.lte || batch % 2 == 1) return std::nullopt;
    return last();
  }

  [[nodiscard]] bool whole(int64_t batch) const override { return batch % 2 == 1 && !context_.lte; }

  [[nodiscard]] int64_t phase(int64_t batch) const override { return batch % 2; }
};

// Learned: α_i = σ(w_i) for i < L and α_L = L − Σ α_i, with w learned. A floor f keeps α_i = f + (1 − f) σ(w_i).
class Learned : public Objective {
 public:
  Learned(ObjectiveContext context, const ObjectiveSpec& spec) : Objective(std::move(context)), floor_(spec.floor) {
    weights_ = register_parameter("weights", torch::full({exits() - 1}, spec.init, torch::kFloat));
  }

  [[nodiscard]] Loss loss(const LossInput& input) const override {
    const Tensor alpha = early_weights();
    const Tensor losses = exit_losses(input);
    Loss out;
    if (last() > 0) out.early = (alpha * losses.narrow(0, 0, last())).sum();
    out.last = (exits() - alpha.sum()) * losses[last()];
    add_lte_loss(input, out);
    return out;
  }

  [[nodiscard]] std::optional<int> only(int64_t) const override { return std::nullopt; }

  [[nodiscard]] std::vector<double> learned_weights() const override {
    const torch::NoGradGuard no_grad;
    const Tensor alpha = early_weights().to(torch::kCPU, torch::kDouble).contiguous();
    std::vector<double> out(alpha.data_ptr<double>(), alpha.data_ptr<double>() + alpha.numel());
    out.push_back(exits() - alpha.sum().item<double>());
    return out;
  }

 private:
  [[nodiscard]] Tensor early_weights() const { return floor_ + (1 - floor_) * torch::sigmoid(weights_); }

  double floor_;
  Tensor weights_;
};

// Distilled: ℓ_L + Σ_{i<L} [(1−γ) ℓ_i + γ T² KL(sg p_L^T ‖ p_i^T)] and its variants; without ℓ_L in a second stage.
class Distill : public Objective {
 public:
  Distill(ObjectiveContext context, const ObjectiveSpec& spec) : Objective(std::move(context)), spec_(spec) {}

  [[nodiscard]] Loss loss(const LossInput& input) const override {
    const Tensor all = all_logits(input), losses = exit_losses(input);
    Loss out;
    if (spec_.kind == ObjectiveKind::distill) out.last = losses[last()];
    const bool group = spec_.variant == DistillVariant::group, berxit = spec_.variant == DistillVariant::berxit;
    if (last() > 0) {
      out.early = imitation(all.narrow(0, 0, last()), teacher_of(input, all));
      if (!group) add_to(out.early, (berxit ? 1.0 : 1.0 - spec_.gamma) * losses.narrow(0, 0, last()).sum());
    }
    if (group) add_groups(input, out);
    add_lte_loss(input, out);
    return out;
  }

  [[nodiscard]] std::optional<int> only(int64_t) const override { return std::nullopt; }

 private:
  // [early exits, rows, outputs], or one for all of them.
  [[nodiscard]] Tensor teacher_of(const LossInput& input, const Tensor& all) const {
    if (spec_.variant == DistillVariant::ema) return input.teacher.detach().unsqueeze(0);
    if (spec_.variant == DistillVariant::chain) return all.narrow(0, 1, last()).detach();
    return all.narrow(0, last(), 1).detach();
  }

  // Summed over exits; `student` [early exits, rows, outputs].
  [[nodiscard]] Tensor imitation(const Tensor& student, const Tensor& teacher) const {
    const auto rows = static_cast<double>(student.size(1)), outputs = static_cast<double>(student.size(2));
    if (context_.problem == Problem::regression)
      return (student - teacher).pow(2).sum() * (spec_.gamma / (rows * outputs));
    if (spec_.variant == DistillVariant::bidir) return spec_.gamma * -(student * teacher).sum();
    if (spec_.variant == DistillVariant::berxit) {
      if (context_.problem == Problem::multi_label)
        return (torch::softplus(student) - student * torch::sigmoid(teacher)).sum();
      return -(torch::softmax(teacher, -1) * torch::log_softmax(student, -1)).sum();
    }
    const double t = spec_.temperature;
    if (context_.problem == Problem::multi_label) {  // each label's yes and no, KL(σ(teacher / T) ‖ σ(student / T))
      const Tensor yes = torch::sigmoid(teacher / t);
      const auto entropy = [&](const Tensor& z) { return torch::softplus(z) - z * yes; };
      const double parts = context_.kl == KlReduction::element ? rows * outputs : rows;
      return (entropy(student / t) - entropy(teacher / t)).sum() * (t * t * spec_.gamma / parts);
    }
    const Tensor target = torch::log_softmax(teacher / t, -1);
    const Tensor sum = (target.exp() * (target - torch::log_softmax(student / t, -1))).sum();
    const double parts = context_.kl == KlReduction::element ? rows * outputs : rows;
    return sum * (spec_.gamma * t * t / parts);
  }

  // β Σ ℓ of the sum of `range` exits in a row (of their mean for a regression).
  void add_groups(const LossInput& input, Loss& out) const {
    for (int first = 0; first + spec_.range <= last(); ++first) {
      Tensor sum;
      for (int k = first; k < first + spec_.range; ++k) add_to(sum, input.outputs.logits[static_cast<size_t>(k)]);
      if (context_.problem == Problem::regression) sum = sum / spec_.range;
      add_to(out.early, spec_.beta * loss_of(sum, input.gold));
    }
  }

  ObjectiveSpec spec_;
};

int exit_after(const ObjectiveContext& context, int layer) {
  const auto found = std::find(context.layers.begin(), context.layers.end(), layer);
  if (found == context.layers.end()) {
    throw Error(Code::usage, fmt::format("objective 'limit': no exit after layer {}", layer),
                fmt::format("exits are after layers {}", fmt::join(context.layers, ", ")));
  }
  return static_cast<int>(found - context.layers.begin());
}

std::vector<double> fixed_weights(const ObjectiveSpec& spec, const ObjectiveContext& context) {
  std::vector<double> weights(context.layers.size(), 1.0);
  switch (spec.kind) {
    case ObjectiveKind::last:
      std::fill(weights.begin(), weights.end() - 1, 0.0);
      break;
    case ObjectiveKind::early_sum:
      weights.back() = 0;
      break;
    case ObjectiveKind::linear: {
      double sum = 0;
      for (const int layer : context.layers) sum += layer;
      for (size_t i = 0; i < weights.size(); ++i) weights[i] = context.layers[i] / sum;
      break;
    }
    case ObjectiveKind::limit:
      std::fill(weights.begin(), weights.end(), 0.0);
      weights[static_cast<size_t>(exit_after(context, spec.layer))] = 1;
      break;
    default:
      check(spec.kind == ObjectiveKind::sum, "a sum of fixed weights");
  }
  return weights;
}

}  // namespace

Tensor Loss::total() const {
  if (!last.defined()) return early;
  return early.defined() ? last + early : last;
}

Tensor Objective::loss_of(const Tensor& logits, const Tensor& gold) const {
  switch (context_.problem) {
    case Problem::classification: {
      const Tensor log_p = torch::log_softmax(logits, -1);
      return smoothed(torch::nll_loss(log_p, gold), log_p);
    }
    case Problem::multi_label:
      return set_losses(logits, gold);
    case Problem::regression:
      return torch::mse_loss(logits.squeeze(-1), gold);
  }
  return {};
}

// −ln σ(z) of what is given and −ln σ(−z) of what is not, as softplus; smoothing moves both towards one half.
Tensor Objective::set_losses(const Tensor& logits, const Tensor& gold) const {
  const double share = context_.label_smoothing;
  const Tensor target = share == 0 ? gold : gold * (1 - share) + share / 2;
  return (torch::softplus(logits) - logits * target).mean({-2, -1});
}

Tensor Objective::smoothed(const Tensor& nll, const Tensor& log_p) const {
  const double share = context_.label_smoothing;
  return share == 0 ? nll : (1 - share) * nll - share * log_p.mean({-2, -1});
}

Tensor Objective::all_logits(const LossInput& input) {
  return input.outputs.stacked.defined() ? input.outputs.stacked : torch::stack(input.outputs.logits);
}

Tensor Objective::exit_losses(const LossInput& input) const {
  const Tensor all = all_logits(input);
  switch (context_.problem) {
    case Problem::classification: {
      const Tensor gold = input.gold.view({1, -1, 1}).expand({all.size(0), -1, 1});
      const Tensor log_p = torch::log_softmax(all, -1);
      return smoothed(-log_p.gather(2, gold).squeeze(2).mean(1), log_p);
    }
    case Problem::multi_label:
      return set_losses(all, input.gold);
    case Problem::regression:
      return (all.squeeze(-1) - input.gold).pow(2).mean(1);
  }
  return {};
}

Loss Objective::weighted(const LossInput& input, const std::vector<double>& weights) const {
  Loss out;
  if (std::find(weights.begin(), weights.end(), 0.0) != weights.end()) {
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      Tensor& part = i + 1 == weights.size() ? out.last : out.early;
      add_to(part, loss_of(input.outputs.logits[i], input.gold) * weights[i]);
    }
  } else {
    const Tensor losses = exit_losses(input);
    Tensor& factors = weight_tensors_[weights];
    if (!factors.defined()) factors = torch::tensor(weights, torch::kFloat).to(losses.device());
    out.early = (losses * factors).narrow(0, 0, last()).sum();
    out.last = losses[last()] * weights.back();
  }
  add_lte_loss(input, out);
  return out;
}

void Objective::add_lte_loss(const LossInput& input, Loss& loss) const {
  if (!context_.lte) return;
  const Tensor logits = all_logits(input).detach();
  Tensor wrong;
  switch (context_.problem) {
    case Problem::classification:
      wrong = logits.argmax(-1).ne(input.gold).to(torch::kFloat);
      break;
    case Problem::multi_label:
      wrong = logits.gt(0).ne(input.gold.gt(0.5)).any(-1).to(torch::kFloat);
      break;
    case Problem::regression:
      wrong = torch::tanh(logits.squeeze(-1) - input.gold).abs();
  }
  add_to(loss.early, torch::mse_loss(torch::stack(input.outputs.lte), wrong));
}

std::shared_ptr<Objective> make_objective(const ObjectiveSpec& spec, const ObjectiveContext& context) {
  switch (spec.kind) {
    case ObjectiveKind::alternate:
      return std::make_shared<Alternate>(context);
    case ObjectiveKind::learned:
      return std::make_shared<Learned>(context, spec);
    case ObjectiveKind::distill:
    case ObjectiveKind::distill_early:
      return std::make_shared<Distill>(context, spec);
    default:
      return std::make_shared<FixedWeights>(context, fixed_weights(spec, context));
  }
}

}  // namespace exeunt::nn
