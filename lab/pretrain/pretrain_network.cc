// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain_network.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/model/family.h"
#include "exeunt/train/gradient.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kWords = 64;
constexpr double kNoShare = -10000.0;

// shares = softmax(x · tableᵀ + bias), in place of the logits; the gradient at the logits is (shares − gold) · weight.
struct TokenLossFunction : torch::autograd::Function<TokenLossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& table, const Tensor& bias,
                        const Tensor& gold, const Tensor& weight, int64_t groups) {
    const compat::Autocast exact(false);  // autocast would make the softmax fp32, twice the memory
    const auto type = x.is_cuda() ? torch::kBFloat16 : torch::kFloat;
    // Rows of a multiple of 64 words: others would make every product several times slower. The words added get no
    // share.
    const int64_t added = (kWords - table.size(0) % kWords) % kWords;
    const Tensor narrow = x.to(type), matrix = torch::constant_pad_nd(table.to(type), {0, 0, 0, added}),
                 offsets = torch::constant_pad_nd(bias.to(type), {0, added}, kNoShare);
    Tensor shares = torch::softmax(torch::addmm(offsets, narrow, matrix.t()), -1);
    const Tensor column = gold.repeat({groups}).unsqueeze(1);
    const Tensor right = shares.gather(1, column).squeeze(1).to(torch::kFloat);
    // The smallest normal number of bf16 and fp32 is about this.
    const Tensor loss = torch::log(right.clamp_min(1e-37)).neg().view({groups, -1}) * weight;
    shares.scatter_(1, column, (right - 1).unsqueeze(1).to(type));
    context->saved_data["words"] = table.size(0);
    context->save_for_backward({shares, narrow, matrix, weight});
    return loss.sum(1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &shares = saved[0], &narrow = saved[1], &matrix = saved[2];
    // [n, 1]: what each row's loss counts.
    const Tensor counts = (gradients[0].unsqueeze(1) * saved[3].unsqueeze(0)).reshape({-1, 1});
    const Tensor x = torch::mm(shares, matrix).to(torch::kFloat) * counts;
    const Tensor weighted = (narrow * counts).to(narrow.scalar_type());
    const int64_t words = context->saved_data["words"].toInt();
    const auto product = [&](const Tensor& b) {
      return torch::mm(shares.t(), b).to(torch::kFloat).narrow(0, 0, words);
    };
    const Tensor table = product(weighted), bias = product(counts.to(shares.scalar_type())).squeeze(1);
    return {x, table, bias, Tensor(), Tensor(), Tensor()};
  }
};

template <class T>
Tensor tensor_from(const std::vector<T>& values, at::IntArrayRef sides, const torch::Device& device) {
  const auto type = c10::CppTypeToScalarType<T>::value;
  Tensor out = torch::empty(sides, torch::TensorOptions(type).pinned_memory(device.is_cuda()));
  check(out.numel() == static_cast<int64_t>(values.size()), "a batch has the size of its shape");
  std::copy(values.begin(), values.end(), static_cast<T*>(out.data_ptr()));
  return out.to(device, /*non_blocking=*/true);
}

std::vector<float> divided(std::vector<float> weights, int64_t count) {
  for (float& weight : weights) weight /= static_cast<float>(std::max<int64_t>(1, count));
  return weights;
}

}  // namespace

PretrainTensors pretrain_tensors(const PretrainBatch& batch, const PretrainShape& shape, const torch::Device& device) {
  const int64_t rows = batch.rows, slots = rows * shape.slots();
  std::vector<int64_t> places;
  for (int64_t row = 0; row < rows; ++row) places.push_back(row * shape.tokens);
  places.insert(places.end(), batch.places.begin(), batch.places.end());
  return {.texts = {.ids = tensor_from(batch.ids, {rows, shape.tokens}, device),
                    .types = tensor_from(batch.types, {rows, shape.tokens}, device),
                    .real = tensor_from(batch.real, {rows, shape.tokens}, device).to(torch::kBool)},
          .places = tensor_from(places, {rows + slots}, device),
          .gold = tensor_from(batch.gold, {slots}, device),
          .weight = tensor_from(divided(batch.weight, batch.counts.predictions), {slots}, device),
          .order = tensor_from(batch.order, {rows}, device),
          .order_weight = tensor_from(divided(batch.order_weight, batch.counts.ordered), {rows}, device)};
}

TokenHeadImpl::TokenHeadImpl(const ModelSpec& spec) : activation_(spec.activation) {
  dense_ = register_module("dense", torch::nn::Linear(spec.hidden, spec.embedding));
  norm_ =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({spec.embedding}).eps(spec.norm_eps)));
  bias_ = register_parameter("bias", torch::zeros({spec.vocab}));
}

Tensor TokenHeadImpl::transformed(const Tensor& rows) {
  return norm_(activated(activation_, dense_(rows).to(torch::kFloat)));
}

Tensor token_losses(const TokenLossInput& input) {
  return TokenLossFunction::apply(input.x, input.table, input.bias, input.gold, input.weight, input.groups);
}

ExitLayout pretrain_layout(const ModelSpec& spec) {
  ExitLayout layout;
  layout.outputs = 2;
  layout.labels = {"in order", "swapped"};
  layout.width = spec.hidden;
  for (int i = 0; i < spec.layers; ++i) layout.sites.push_back({.after = i + 1, .pooler = i, .classifier = i});
  return layout;
}

PretrainNetworkImpl::PretrainNetworkImpl(Network network, TokenHead head) {
  network_ = register_module("network", std::move(network));
  head_ = register_module("mlm", std::move(head));
  table_ = network_->named_parameters()["embeddings.word.weight"];
}

Tensor PretrainNetworkImpl::losses(const PretrainTensors& batch, const std::vector<bool>& active, bool equilibrium) {
  const int64_t rows = batch.order.size(0), predictions = batch.gold.size(0);
  std::vector<Tensor> hidden, first;
  std::vector<ExitSite> sites;
  network_->run_layers(batch.texts, network_->spec().layers, equilibrium, [&](int layer, const Tensor& all) {
    if (layer == 0 || !active[static_cast<size_t>(layer) - 1]) return;
    const Tensor found = all.reshape({-1, all.size(-1)}).index_select(0, batch.places);
    hidden.push_back(found.narrow(0, rows, predictions));
    first.push_back(found.narrow(0, 0, rows));
    sites.push_back(network_->layout().sites[static_cast<size_t>(layer) - 1]);
  });
  const auto exits = static_cast<int64_t>(sites.size());
  const auto order_logits = [&] {
    const compat::Autocast exact(false);
    return network_->heads()->forward_all(sites, first).logits;
  };
  const Tensor log_p = torch::log_softmax(order_logits(), -1);
  const Tensor right = log_p.gather(2, batch.order.view({1, rows, 1}).expand({exits, rows, 1})).squeeze(2);
  const Tensor tokens = token_losses({.x = head_->transformed(torch::cat(hidden)),
                                      .table = table_,
                                      .bias = head_->bias(),
                                      .gold = batch.gold,
                                      .weight = batch.weight,
                                      .groups = exits});
  return torch::stack({tokens, (right * batch.order_weight).sum(1).neg()});
}

std::vector<bool> active_exits(int layers, int groups, int64_t step) {
  std::vector<bool> active(static_cast<size_t>(layers));
  for (int i = 0; i < layers; ++i) active[static_cast<size_t>(i)] = i % groups == step % groups || i + 1 == layers;
  return active;
}

Checkpoint pretrained_backbone(const NetworkImpl& network, Origin origin) {
  ModelSpec spec = network.spec();
  const std::optional<Family> each = row_of(spec.family).with_layer_poolers;
  spec.family = each.value_or(spec.family);
  spec.layer_poolers = each.has_value();
  const Checkpoint whole = to_checkpoint(network);
  TensorSet set;
  for (const auto& item : network.named_parameters()) {
    const std::string& name = item.key();
    const TensorView* view = whole.find(name);
    if (!name.starts_with("exits.")) set.tensors[name] = *view;
  }
  for (const ExitSite& site : network.layout().sites) {
    for (const char* part : {"weight", "bias"}) {
      const TensorView view = whole.get(fmt::format("exits.pooler.{}.{}", *site.pooler, part));
      if (each) set.tensors[fmt::format("pooler.{}.{}", site.after - 1, part)] = view;
      if (!each && site.after == spec.layers) set.tensors[fmt::format("pooler.{}", part)] = view;
    }
  }
  set.owners.push_back(std::make_shared<const Checkpoint>(whole));
  return {spec, ExitLayout{}, std::move(set), std::move(origin)};
}

double PretrainReport::loss() const {
  double sum = 0;
  for (const auto* part : {&tokens, &order}) {
    for (const std::optional<double>& value : *part) sum += value.value_or(0);
  }
  return sum;
}

PretrainStepper::PretrainStepper(PretrainNetwork network, const PretrainStepOptions& options)
    : network_(std::move(network)),
      options_(options),
      adam_(make_slots(), {.kind = AdamKind::torch, .epsilon = options.epsilon}) {}

std::vector<AdamSlot> PretrainStepper::make_slots() {
  std::vector<AdamSlot> slots;
  for (const auto& item : network_->named_parameters()) {
    const bool decayed = decays(item.key(), network_->network()->spec());
    slots.push_back({.name = item.key(),
                     .parameter = item.value(),
                     .rate = options_.lr,
                     .decay = decayed ? options_.weight_decay : 0.0});
  }
  return slots;
}

std::vector<Tensor> PretrainStepper::pass(const PretrainTensors& batch, const std::vector<bool>& active) {
  network_->train();
  const auto& [texts, places, gold, weight, order, order_weight] = batch;
  const std::vector<Tensor> inputs{texts.ids, texts.types, texts.real, places, gold, weight, order, order_weight};
  return graphs_.run(done_ % options_.groups, inputs, [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> out;
    {
      const compat::Autocast autocast(options_.bf16);
      out.push_back(
          network_->losses({{in[0], in[1], in[2]}, in[3], in[4], in[5], in[6], in[7]}, active, options_.equilibrium));
    }
    out.front().sum().backward();
    out.front() = out.front().detach();
    for (AdamSlot& slot : adam_.slots()) out.push_back(std::exchange(slot.parameter.mutable_grad(), {}));
    return out;
  });
}

PretrainReport PretrainStepper::step(std::span<const PretrainTensors> batches) {
  const std::vector<bool> active = active_exits(network_->network()->spec().layers, options_.groups, done_);
  std::vector<Tensor> sums, like;  // the losses, then the gradients
  const auto exits = std::count(active.begin(), active.end(), true);
  like.push_back(torch::zeros({2, exits}, adam_.slots().front().parameter.device()));
  for (const AdamSlot& slot : adam_.slots()) like.push_back(slot.parameter);
  sums.resize(like.size());
  for (const PretrainTensors& batch : batches) {
    const std::vector<Tensor> found = pass(batch, active);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!found[i].defined()) continue;
      // The next pass writes over what this one returned.
      sums[i] = sums[i].defined() ? sums[i].add_(found[i]) : batches.size() > 1 ? found[i].clone() : found[i];
    }
  }
  if (options_.world != nullptr) options_.world->all_reduce(sums, like);
  const Tensor losses = sums.front();
  std::vector<Tensor> gradients;
  for (size_t i = 1; i < sums.size(); ++i) {
    adam_.slots()[i - 1].parameter.mutable_grad() = sums[i];
    if (sums[i].defined()) gradients.push_back(sums[i]);
  }
  const double schedule = options_.schedule.at(done_++);
  PretrainReport out{.gradient_norm = clip_gradients(gradients, options_.clip), .rate = options_.lr * schedule};
  adam_.step(schedule);
  for (AdamSlot& slot : adam_.slots()) slot.parameter.mutable_grad() = Tensor();
  const Tensor values = losses.to(torch::kCPU, torch::kDouble);
  out.tokens.resize(active.size());
  out.order.resize(active.size());
  for (size_t i = 0, next = 0; i < active.size(); ++i) {
    if (!active[i]) continue;
    out.tokens[i] = values[0][static_cast<int64_t>(next)].item<double>();
    out.order[i] = values[1][static_cast<int64_t>(next)].item<double>();
    ++next;
  }
  return out;
}

Tensor PretrainStepper::evaluate(const PretrainTensors& batch) {
  const torch::NoGradGuard no_grad;
  network_->eval();
  const std::vector<bool> all(network_->network()->layout().sites.size(), true);
  const compat::Autocast autocast(options_.bf16);
  return network_->losses(batch, all, false).to(torch::kCPU, torch::kDouble);
}

}  // namespace exeunt::nn
