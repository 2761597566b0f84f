// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain_network.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/model/family.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kWeightDeviation = 0.02;
constexpr int64_t kWords = 64;
constexpr double kNoShare = -10000.0;

// shares = softmax(x · tableᵀ + bias), in place of the logits; the gradient at the logits is (shares − gold) · weight.
struct TokenLossFunction : torch::autograd::Function<TokenLossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& table, const Tensor& bias,
                        const Tensor& gold, const Tensor& weight, int64_t groups) {
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
    const Tensor table = compat::product_fp32(shares.t(), weighted).narrow(0, 0, words);
    const Tensor bias =
        compat::product_fp32(shares.t(), counts.to(shares.scalar_type())).squeeze(1).narrow(0, 0, words);
    return {x, table, bias, Tensor(), Tensor(), Tensor()};
  }
};

template <class T>
Tensor host_tensor(const std::vector<T>& values, torch::ScalarType type, at::IntArrayRef sides, bool pinned) {
  Tensor out = torch::empty(sides, torch::TensorOptions(type).pinned_memory(pinned));
  check(out.numel() == static_cast<int64_t>(values.size()), "a batch has the size of its shape");
  std::copy(values.begin(), values.end(), static_cast<T*>(out.data_ptr()));
  return out;
}

std::vector<float> divided(std::vector<float> weights) {
  float sum = 0;
  for (const float weight : weights) sum += weight;
  for (float& weight : weights) weight /= std::max(1.0F, sum);
  return weights;
}

PretrainTensors padded_tensors(const PretrainBatch& batch, const PretrainShape& shape, bool pinned) {
  const int64_t rows = batch.rows, slots = rows * shape.slots();
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(rows + slots));
  for (int64_t row = 0; row < rows; ++row) places.push_back(row * shape.tokens);
  places.insert(places.end(), batch.places.begin(), batch.places.end());
  const Tensor real = host_tensor(batch.real, torch::kByte, {rows, shape.tokens}, false);
  Tensor shown = torch::empty({rows, shape.tokens}, torch::TensorOptions(torch::kBool).pinned_memory(pinned));
  shown.copy_(real);
  PretrainTensors out;
  out.texts = {host_tensor(batch.ids, torch::kLong, {rows, shape.tokens}, pinned),
               host_tensor(batch.types, torch::kLong, {rows, shape.tokens}, pinned), shown};
  out.places = host_tensor(places, torch::kLong, {rows + slots}, pinned);
  out.gold = host_tensor(batch.gold, torch::kLong, {slots}, pinned);
  out.weight = host_tensor(divided(batch.weight), torch::kFloat, {slots}, pinned);
  return out;
}

constexpr int64_t rounded_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// Tokens of several texts, one text behind the other.
struct PackedTokens {
  std::vector<int64_t> ids, types, positions;
  std::vector<int32_t> cuts{0};

  [[nodiscard]] int64_t size() const noexcept { return static_cast<int64_t>(ids.size()); }
  void add(int64_t id, int64_t type, int64_t position) {
    ids.push_back(id);
    types.push_back(type);
    positions.push_back(position);
  }
  void end_text() { cuts.push_back(static_cast<int32_t>(ids.size())); }
};

PretrainTensors packed_tensors(const PretrainBatch& batch, const PretrainShape& shape, bool pinned) {
  PackedTokens texts;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto first = static_cast<size_t>(row * shape.tokens);
    for (size_t t = 0; t < static_cast<size_t>(shape.tokens) && batch.real[first + t] != 0; ++t) {
      texts.add(batch.ids[first + t], batch.types[first + t], static_cast<int64_t>(t));
    }
    texts.end_text();
  }
  std::vector<int64_t> places(texts.cuts.begin(), texts.cuts.end() - 1), gold;  // first the texts' first tokens
  std::vector<float> weight;
  for (size_t slot = 0; slot < batch.places.size(); ++slot) {
    if (batch.weight[slot] == 0) continue;
    const int64_t row = batch.places[slot] / shape.tokens;
    places.push_back(texts.cuts[static_cast<size_t>(row)] + batch.places[slot] % shape.tokens);
    gold.push_back(batch.gold[slot]);
    weight.push_back(batch.weight[slot]);
  }
  // The padding: always as many texts, none of them empty and none longer than the others may be.
  const int64_t used = texts.size(), paddings = rounded_up(kPackedTokens, shape.tokens - 1) / (shape.tokens - 1);
  int64_t left = rounded_up(used + paddings, kPackedTokens) - used;
  for (int64_t padding = paddings; padding > 0; --padding) {
    const int64_t length = left / padding;
    for (int64_t t = 0; t < length; ++t) texts.add(shape.pad, 0, t);
    texts.end_text();
    left -= length;
  }
  const int64_t tokens = texts.size(), predictions = rounded_up(static_cast<int64_t>(gold.size()), kPackedPredictions);
  places.resize(static_cast<size_t>(batch.rows + predictions), used);
  gold.resize(static_cast<size_t>(predictions), 0);
  weight.resize(static_cast<size_t>(predictions), 0);

  Tensor real = torch::zeros({1, tokens}, torch::TensorOptions(torch::kBool).pinned_memory(pinned));
  real.narrow(1, 0, used).fill_(true);
  PretrainTensors out;
  out.texts = {.ids = host_tensor(texts.ids, torch::kLong, {1, tokens}, pinned),
               .types = host_tensor(texts.types, torch::kLong, {1, tokens}, pinned),
               .real = real,
               .positions = host_tensor(texts.positions, torch::kLong, {1, tokens}, pinned),
               .cuts = host_tensor(texts.cuts, torch::kInt, {static_cast<int64_t>(texts.cuts.size())}, pinned),
               .longest = shape.tokens};
  out.places = host_tensor(places, torch::kLong, {batch.rows + predictions}, pinned);
  out.gold = host_tensor(gold, torch::kLong, {predictions}, pinned);
  out.weight = host_tensor(divided(weight), torch::kFloat, {predictions}, pinned);
  return out;
}

std::vector<Tensor*> parts_of(PretrainTensors& batch) {
  std::vector<Tensor*> out;
  for (Tensor* part :
       {&batch.texts.ids, &batch.texts.types, &batch.texts.real, &batch.texts.positions, &batch.texts.cuts,
        &batch.places, &batch.gold, &batch.weight, &batch.order, &batch.order_weight}) {
    if (part->defined()) out.push_back(part);
  }
  return out;
}

}  // namespace

PretrainTensors pretrain_tensors(const PretrainBatch& batch, const PretrainShape& shape, const PretrainPlace& place) {
  const bool pinned = place.pinned;
  PretrainTensors out = place.packed ? packed_tensors(batch, shape, pinned) : padded_tensors(batch, shape, pinned);
  out.order = host_tensor(batch.order, torch::kLong, {batch.rows}, pinned);
  out.order_weight = host_tensor(divided(batch.order_weight), torch::kFloat, {batch.rows}, pinned);
  return out;
}

PretrainTensors moved(PretrainTensors batch, const torch::Device& device) {
  for (Tensor* part : parts_of(batch)) *part = part->to(device, /*non_blocking=*/true);
  return batch;
}

void copy_batch(PretrainTensors& to, PretrainTensors from) {
  const std::vector<Tensor*> parts = parts_of(to), values = parts_of(from);
  check(parts.size() == values.size(), "batches of one kind have the same parts");
  for (size_t i = 0; i < parts.size(); ++i) parts[i]->copy_(*values[i], /*non_blocking=*/true);
}

TokenHeadImpl::TokenHeadImpl(const ModelSpec& spec) : activation_(spec.activation) {
  dense_ = register_module("dense", torch::nn::Linear(spec.hidden, spec.embedding));
  norm_ =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({spec.embedding}).eps(spec.norm_eps)));
  bias_ = register_parameter("bias", torch::zeros({spec.vocab}));
}

Tensor TokenHeadImpl::transformed(const Tensor& rows) {
  const auto type = rows.scalar_type();  // of the fused layers: bf16 on a GPU
  const Tensor wide = torch::linear(rows, dense_->weight.to(type), dense_->bias.to(type)).to(torch::kFloat);
  const Tensor active = activation_ == Activation::relu
                            ? torch::relu(wide)
                            : torch::gelu(wide, activation_ == Activation::gelu ? "none" : "tanh");
  return norm_(active);
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

Tensor PretrainNetworkImpl::losses(const PretrainTensors& batch, const std::vector<bool>& active,
                                   const Options& options) {
  const std::vector<Tensor> found = network_->rows_at(batch.texts, batch.places, active,
                                                      {.equilibrium = options.equilibrium, .fused = options.fused});
  const int64_t rows = batch.order.size(0), predictions = batch.gold.size(0);
  std::vector<Tensor> hidden, first;
  std::vector<ExitSite> sites;
  for (size_t i = 0; i < active.size(); ++i) {
    if (!active[i]) continue;
    hidden.push_back(found[i].narrow(0, rows, predictions));
    first.push_back(found[i].narrow(0, 0, rows).to(torch::kFloat));
    sites.push_back(network_->layout().sites[i]);
  }
  const auto exits = static_cast<int64_t>(sites.size());
  const Tensor log_p = torch::log_softmax(network_->heads()->forward_all(sites, first).logits, -1);
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

void draw_weights(torch::nn::Module& module, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(seed);
  for (auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with("norm.weight")) {
      item.value().fill_(1);
    } else if (name.ends_with("bias")) {
      item.value().zero_();
    } else {
      item.value().normal_(0.0, kWeightDeviation);
    }
  }
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

}  // namespace exeunt::nn
