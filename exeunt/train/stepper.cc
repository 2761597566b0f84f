// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/stepper.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/data/batches.h"
#include "exeunt/model/schema.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace {

ObjectiveContext context_of(const ExitLayout& layout, const Recipe& recipe, const StageSpec& stage) {
  ObjectiveContext context{.layers = {},
                           .problem = layout.problem,
                           .lte = layout.lte,
                           .kl = recipe.compat.kd_kl_reduction,
                           .label_smoothing = stage.label_smoothing};
  for (const ExitSite& site : layout.sites) context.layers.push_back(site.after);
  return context;
}

// Projection is over the weight matrices of all layers but the last. With shared layers (ALBERT) a set counts as
// soon as one layer before the last uses it.
bool is_projected(const std::string& name, const ModelSpec& spec, ExcludeLast exclude) {
  const bool matrix = name.ends_with(".weight") && name.find("norm") == std::string::npos;
  if (!matrix) return false;
  for (int i = 0; i < spec.layers; ++i) {
    const bool excluded = exclude == ExcludeLast::layer11 ? i == 11 : i + 1 == spec.layers;
    if (!excluded && name.starts_with(layer_prefix(spec, i) + ".")) return true;
  }
  return false;
}

// How many layers lie above the parameter. A set that several layers share (ALBERT) counts as the highest of them.
int layers_above(const std::string& name, const ModelSpec& spec) {
  for (int i = spec.layers - 1; i >= 0; --i) {
    if (name.starts_with(layer_prefix(spec, i) + ".")) return spec.layers - 1 - i;
  }
  return spec.layers;  // the embeddings
}

bool reaches_last(const std::string& name, std::string_view part, std::optional<int> index) {
  return index && name.starts_with(fmt::format("exits.{}.{}.", part, *index));
}

}  // namespace

bool decays(const std::string& name, const ModelSpec& spec) {
  if (name.ends_with(".bias")) return false;
  if (!name.ends_with("norm.weight")) return true;
  return spec.ffn_norm_decays && name.ends_with("ffn_norm.weight");
}

bool belongs_to_early_exits(const std::string& name, const ExitLayout& layout) {
  if (!name.starts_with("exits.") || name.starts_with("exits.lte.")) return false;
  const ExitSite& last = layout.sites.back();
  return !reaches_last(name, "pooler", last.pooler) && !reaches_last(name, "reader", last.reader) &&
         !reaches_last(name, "classifier", last.classifier);
}

Stepper::Stepper(Network network, const Recipe& recipe, const StageSpec& stage, const StepperOptions& options)
    : network_(std::move(network)),
      recipe_(recipe),
      stage_(stage),
      options_(options),
      objective_(make_objective(stage.objective, context_of(network_->layout(), recipe, stage))),
      adam_(make_slots(), {.kind = recipe.compat.adamw, .epsilon = options.epsilon}),
      frozen_(stage.train == Trainable::exits && recipe.compat.frozen == Frozen::eval) {
  const bool clips_all = recipe_.compat.clip_scope == ClipScope::all;
  for (auto& item : network_->named_parameters()) {
    parameters_.push_back(item.value());
    projected_.push_back(is_projected(item.key(), network_->spec(), recipe_.compat.gr_exclude_last));
    clipped_.push_back(clips_all || trains(item.key()));
    // With clipping over everything, frozen parameters still need their gradient: it takes part in the norm.
    item.value().set_requires_grad(trains(item.key()) || (clips_all && !frozen_));
  }
  objective_->to(parameters_.front().device());
  if (stage.objective.variant == DistillVariant::ema && stage.objective.distills()) {
    const torch::NoGradGuard no_grad;
    teacher_ = Network(network_->spec(), network_->layout());
    teacher_->to(parameters_.front().device());
    for (auto& item : teacher_->named_parameters()) {
      item.value().copy_(network_->named_parameters()[item.key()]);
      item.value().set_requires_grad(false);
    }
  }
  // A recorded step may change nothing but gradients, start from none, and wait for no other process.
  const bool keeps = !objective_->parameters().empty() && recipe_.compat.dyn_grad == LearnedGradient::accumulate;
  const bool alone = options_.world == nullptr || options_.world->size() == 1;
  recorded_ = options_.recorded && alone && !teacher_ && !keeps;
}

bool Stepper::trains(const std::string& name) const {
  if (stage_.train == Trainable::all) return true;
  return belongs_to_early_exits(name, network_->layout()) == (stage_.train == Trainable::exits);
}

std::vector<AdamSlot> Stepper::make_slots() const {
  std::vector<AdamSlot> slots;
  for (const auto& item : network_->named_parameters()) {
    if (!trains(item.key())) continue;
    const double factor = item.key().starts_with("exits.")
                              ? stage_.head_lr
                              : std::pow(stage_.layer_lr, layers_above(item.key(), network_->spec()));
    slots.push_back({.name = item.key(),
                     .parameter = item.value(),
                     .rate = options_.lr * factor,
                     .decay = decays(item.key(), network_->spec()) ? stage_.weight_decay : 0.0});
  }
  for (const auto& item : objective_->named_parameters()) {
    slots.push_back({.name = "objective." + item.key(),
                     .parameter = item.value(),
                     .rate = stage_.objective.lr,
                     .decay = 0,
                     .scheduled = false});
  }
  return slots;
}

void Stepper::update_teacher() {
  if (!teacher_) return;
  const torch::NoGradGuard no_grad;
  const double momentum = stage_.objective.momentum;
  const auto live = network_->named_parameters();
  for (auto& item : teacher_->named_parameters()) {
    item.value().mul_(momentum).add_(live[item.key()], 1 - momentum);
  }
}

Loss Stepper::losses(const TrainBatch& data, int64_t batch) {
  network_->train();
  const compat::Autocast autocast(options_.bf16);
  ExitOutputs outputs =
      network_->forward(data.texts, {.equilibrium = recipe_.gradient.rule == GradientRule::equilibrium,
                                     .together = objective_->whole(batch),
                                     .only = objective_->only(batch),
                                     .frozen = frozen_});
  Tensor taught;
  if (teacher_) {
    update_teacher();
    const torch::NoGradGuard no_grad;
    teacher_->train();
    const int last = static_cast<int>(network_->layout().sites.size()) - 1;
    taught = teacher_->forward(data.texts, {.only = last}).logits.back();
  }
  if (recipe_.gradient.rule == GradientRule::logit_scale) {
    for (size_t i = 0; i < outputs.logits.size(); ++i) {
      const int above = network_->spec().layers - network_->layout().sites[i].after;
      if (outputs.logits[i].defined()) outputs.logits[i] = scale_gradient(outputs.logits[i], 1.0 / (above + 1));
    }
    outputs.stacked = Tensor();
  }
  return objective_->loss({.outputs = outputs, .gold = data.gold, .batch = batch, .teacher = taught});
}

// Sets earlier gradients of learned loss weights aside, so that what the step adds can be summed over processes.
void Stepper::begin() {
  if (phase_ != Phase::idle) return;
  phase_ = Phase::accumulating;
  kept_.clear();
  for (Tensor& weight : objective_->parameters()) {
    kept_.push_back(weight.grad());
    weight.mutable_grad() = Tensor();
  }
}

// Gradients and the loss, summed over all processes.
void Stepper::all_reduce_gradients() {
  const World* world = options_.world;
  if (world == nullptr || world->size() == 1) return;
  loss_ = world->all_reduce(loss_);
  if (parts_.defined()) {
    std::vector<Tensor> sums{parts_};
    world->all_reduce(sums, {parts_});
    parts_ = sums.front();
  }
  if (recipe_.gradient.rule == GradientRule::project) {
    anchor_.resize(parameters_.size());
    other_.resize(parameters_.size());
    world->all_reduce(anchor_, parameters_);
    world->all_reduce(other_, parameters_);
  }
  const auto sum = [&](std::vector<Tensor> owners) {
    std::vector<Tensor> gradients;
    for (const Tensor& owner : owners) gradients.push_back(owner.grad());
    world->all_reduce(gradients, owners);
    for (size_t i = 0; i < owners.size(); ++i) owners[i].mutable_grad() = gradients[i];
  };
  sum(parameters_);
  sum(objective_->parameters());
}

Tensor Stepper::accumulate(const TrainBatch& data, int64_t batch, double share) {
  begin();
  const Loss loss = losses(data, batch);
  const Tensor total = loss.total();
  if (stage_.objective.distills() && loss.last.defined() && loss.early.defined()) {
    const Tensor parts = torch::stack({loss.last.detach(), loss.early.detach()}) * share;
    parts_ = parts_.defined() ? parts_ + parts : parts;
  }
  if (recipe_.gradient.rule == GradientRule::project) {
    add_apart(loss, share);
  } else {
    (total * share).backward();
  }
  return total.detach();
}

// accumulate() and combine_gradients() of a step's only micro-batch, as a recording where there is one.
Tensor Stepper::whole_pass(const TrainBatch& data, int64_t batch) {
  std::vector<Tensor> owners = parameters_;
  for (const Tensor& weight : objective_->parameters()) owners.push_back(weight);
  const auto pass = [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> out{accumulate({{in[0], in[1], in[2]}, in[3]}, batch, 1.0)};
    combine_gradients();
    out.insert(out.end(), {std::exchange(parts_, {}), std::exchange(projection_, {})});
    for (const Tensor& owner : owners) out.push_back(std::exchange(owner.mutable_grad(), {}));
    return out;
  };
  const TextBatch& texts = data.texts;
  const std::vector<Tensor> found =
      graphs_.run(objective_->phase(batch), {texts.ids, texts.types, texts.real, data.gold}, pass);
  parts_ = found[1];
  projection_ = found[2];
  for (size_t i = 0; i < owners.size(); ++i) owners[i].mutable_grad() = found[i + 3];
  phase_ = Phase::combined;
  return found[0];
}

double Stepper::add(const TrainBatch& data, int64_t batch, double share) {
  check(!recorded_ || (share == 1 && phase_ == Phase::idle), "a recorded step has one micro-batch");
  const double value = (recorded_ ? whole_pass(data, batch) : accumulate(data, batch, share)).item<double>();
  loss_ += value * share;
  return value;
}

void Stepper::zero_grad() {
  for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
  std::vector<Tensor> weights = objective_->parameters();
  for (size_t i = 0; i < weights.size(); ++i) weights[i].mutable_grad() = i < kept_.size() ? kept_[i] : Tensor();
  anchor_.clear();
  other_.clear();
  parts_ = Tensor();
  loss_ = 0;
  phase_ = Phase::idle;
}

// Gradients of the anchor and of the other loss, each summed over micro-batches by itself.
void Stepper::add_apart(const Loss& loss, double share) {
  const bool last = recipe_.gradient.anchor.value == Anchor::last;
  std::vector<Tensor> weights = objective_->parameters();
  if (!weights.empty()) {  // learned loss weights see the whole loss
    const auto found = torch::autograd::grad({loss.total() * share}, weights, {}, true, false, true);
    for (size_t i = 0; i < weights.size(); ++i) {
      Tensor& gradient = weights[i].mutable_grad();
      gradient = gradient.defined() ? gradient + found[i] : found[i];
    }
  }
  const auto collect = [&](const Tensor& part, std::vector<Tensor>& sums, bool keep) {
    sums.resize(parameters_.size());
    if (!part.defined()) return;
    std::vector<Tensor> learning;  // frozen parameters have no gradient to ask for
    for (const Tensor& parameter : parameters_) {
      if (parameter.requires_grad()) learning.push_back(parameter);
    }
    const auto found = torch::autograd::grad({part * share}, learning, {}, keep, false, true);
    for (size_t i = 0, next = 0; i < sums.size(); ++i) {
      if (!parameters_[i].requires_grad()) continue;
      const Tensor& gradient = found[next++];
      if (gradient.defined()) sums[i] = sums[i].defined() ? sums[i] + gradient : gradient.contiguous();
    }
  };
  collect(last ? loss.last : loss.early, anchor_, true);
  collect(last ? loss.early : loss.last, other_, false);
}

void Stepper::combine_gradients() {
  begin();  // a process whose part of the batch was empty has added nothing
  if (std::exchange(phase_, Phase::combined) == Phase::combined) return;
  const torch::NoGradGuard no_grad;
  all_reduce_gradients();
  std::vector<Tensor> weights = objective_->parameters();
  for (size_t i = 0; i < weights.size(); ++i) {
    Tensor& gradient = weights[i].mutable_grad();
    if (kept_[i].defined()) gradient = gradient.defined() ? kept_[i] + gradient : kept_[i];
  }
  if (anchor_.empty()) return;
  std::vector<Tensor> anchor, other;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!projected_[i]) continue;
    anchor.push_back(anchor_[i]);
    other.push_back(other_[i]);
  }
  projection_ = project_secondary(anchor, other);
  std::vector<Tensor> sums, terms;  // where there are both
  size_t next = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor second = projected_[i] ? other[next++] : other_[i];
    parameters_[i].mutable_grad() = anchor_[i].defined() ? anchor_[i] : second;
    if (!anchor_[i].defined() || !second.defined()) continue;
    sums.push_back(anchor_[i]);
    terms.push_back(second);
  }
  if (!sums.empty()) at::_foreach_add_(sums, terms);
  anchor_.clear();
  other_.clear();
}

StepReport Stepper::step() {
  combine_gradients();
  StepReport report;
  report.loss = loss_;
  if (parts_.defined()) {
    const Tensor parts = parts_.to(torch::kCPU, torch::kDouble);
    report.last_loss = parts[0].item<double>();
    report.early_loss = parts[1].item<double>();
    parts_ = Tensor();
  }
  std::vector<Tensor> clipped;  // without those of learned loss weights
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (clipped_[i] && parameters_[i].grad().defined()) clipped.push_back(parameters_[i].grad());
  }
  report.gradient_norm = clip_gradients(clipped, stage_.clip);
  const double schedule = options_.schedule.at(done_);
  report.rate = options_.lr * schedule;
  if (projection_.defined()) {
    const Tensor found = projection_.to(torch::kCPU);
    const auto* value = found.data_ptr<double>();
    report.projection = projection_report(value[0], value[1], value[2]);
  }
  adam_.step(schedule);
  for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
  if (recipe_.compat.dyn_grad == LearnedGradient::fresh) {
    for (Tensor& weight : objective_->parameters()) weight.mutable_grad() = Tensor();
  }
  loss_ = 0;
  phase_ = Phase::idle;
  ++done_;
  return report;
}

TrainBatch batch_tensors(const Features& features, std::span<const size_t> rows, const BatchShape& shape) {
  size_t longest = 0;
  for (const size_t row : rows) longest = std::max(longest, features.length(row));
  const auto multiple = static_cast<size_t>(shape.multiple);
  const size_t padded = (longest + multiple - 1) / multiple * multiple;
  longest = std::max(longest, std::min(padded, static_cast<size_t>(shape.most)));
  const std::vector<int64_t> sides{static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)};
  const bool pinned = shape.device.is_cuda();
  const auto kind = [&](torch::ScalarType type) { return torch::TensorOptions(type).pinned_memory(pinned); };
  const Tensor ids = torch::full(sides, shape.pad_id, kind(torch::kLong)),
               types = torch::zeros(sides, kind(torch::kLong)), real = torch::zeros(sides, kind(torch::kBool));
  const auto labels = static_cast<int64_t>(features.sets.size() / std::max<size_t>(1, features.rows()));
  const Tensor gold =
      labels > 0 ? torch::empty({sides[0], labels}, kind(torch::kFloat))
                 : torch::empty({sides[0]}, kind(shape.problem == Problem::regression ? torch::kFloat : torch::kLong));
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto row_ids = features.ids_of(rows[n]);
    const auto row_types = features.types_of(rows[n]);
    std::copy(row_ids.begin(), row_ids.end(), ids.data_ptr<int64_t>() + n * longest);
    std::copy(row_types.begin(), row_types.end(), types.data_ptr<int64_t>() + n * longest);
    std::fill_n(real.data_ptr<bool>() + n * longest, row_ids.size(), true);
    if (labels > 0) {
      std::copy_n(features.sets.begin() + static_cast<int64_t>(rows[n]) * labels, labels,
                  gold.data_ptr<float>() + static_cast<int64_t>(n) * labels);
    } else if (shape.problem == Problem::regression) {
      gold.data_ptr<float>()[n] = features.gold[rows[n]];
    } else {
      gold.data_ptr<int64_t>()[n] = static_cast<int64_t>(features.gold[rows[n]]);
    }
  }
  const auto there = [&](const Tensor& tensor) { return tensor.to(shape.device, /*non_blocking=*/true); };
  return {{there(ids), there(types), there(real)}, there(gold)};
}

double StepTimer::seconds() const {
  using std::chrono::steady_clock;
  constexpr double kWithUpdates = 1.15;  // gradients are timed; the optimiser takes a little more
  double total = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const StageSpec& stage = options.recipe.stages[i];
    if (plans[i].steps == 0) continue;
    Stepper stepper(network, options.recipe, stage,
                    {.lr = plans[i].lr,
                     .schedule = plans[i].schedule,
                     .world = &world,
                     .bf16 = options.precision == "bf16",
                     .recorded = options.accumulation == 1});
    const std::vector<Batch> batches = shuffled_batches(
        data.train.offsets, {.batch = static_cast<size_t>(stage.batch), .window = static_cast<size_t>(options.window)});
    const auto tokens = [&](const Batch& rows) {
      size_t longest = 0;
      for (const size_t row : rows) longest = std::max(longest, data.train.length(row));
      return static_cast<double>(longest * rows.size());
    };
    double mean = 0;
    for (const Batch& rows : batches) mean += tokens(rows) / static_cast<double>(batches.size());
    const Batch& usual = *std::min_element(batches.begin(), batches.end(), [&](const Batch& a, const Batch& b) {
      return std::fabs(tokens(a) - mean) < std::fabs(tokens(b) - mean);
    });
    const TrainBatch batch = batch_tensors(data.train, usual, shape);
    double fastest = INFINITY;  // the first one also starts threads and fills caches, the second one may be recorded
    for (int n = 0; n < 3; ++n) {
      const auto start = steady_clock::now();
      (void)stepper.add(batch, 0, 1.0);
      for (const Tensor& parameter : network->parameters()) {  // waits for a GPU that is still at work
        if (parameter.grad().defined()) (void)parameter.grad().flatten()[0].item<float>();
      }
      stepper.zero_grad();
      fastest = std::min(fastest, std::chrono::duration<double>(steady_clock::now() - start).count());
    }
    const double share = tokens(usual) > 0 ? mean / tokens(usual) : 1;
    total += kWithUpdates * fastest * share * static_cast<double>(plans[i].steps * options.accumulation);
  }
  return total;
}

std::optional<double> StepTimer::deterministic_cost() const {
  if (!options.deterministic || !shape.device.is_cuda()) return std::nullopt;
  compat::repeat_bit_for_bit(shape.device, false);
  const double without = seconds();
  compat::repeat_bit_for_bit(shape.device, true);
  return without > 0 ? std::optional(seconds() / without) : std::nullopt;
}

}  // namespace exeunt::nn
