// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/network.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/model/positions.h"
#include "exeunt/model/spec.h"
#include "exeunt/train/gradient.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace F = torch::nn::functional;
namespace {

using torch::indexing::Slice;

// Added to the scores of padding. exp() of it is 0 in fp32, so padding leaves no trace in the result.
constexpr double kMasked = -10000.0;

torch::nn::Linear linear_of(int inputs, int outputs, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(bias));
}

Tensor dropped(const Tensor& values, double rate, bool training) {
  return training && rate > 0 ? torch::dropout(values, rate, true) : values;
}

Tensor activated(PoolerActivation activation, const Tensor& values) {
  switch (activation) {
    case PoolerActivation::tanh:
      return torch::tanh(values);
    case PoolerActivation::relu:
      return torch::relu(values);
    case PoolerActivation::gelu:
      return torch::gelu(values);
  }
  check(false, "a pooler's activation has a formula");
  return values;
}

// Halves of every head exchanged, the new first one negated: what rotary positions multiply by the sines.
Tensor exchanged(const Tensor& heads) {
  const int64_t half = heads.size(-1) / 2;
  return torch::cat({heads.narrow(-1, half, half).neg(), heads.narrow(-1, 0, half)}, -1);
}

Tensor mean_of(const Tensor& rows, const Tensor& real) {
  const Tensor weights = real.unsqueeze(-1).to(rows.dtype());
  return (rows * weights).sum(1) / weights.sum(1);
}

Tensor largest_of(const Tensor& rows, const Tensor& real) {
  return rows.masked_fill(real.logical_not().unsqueeze(-1), -INFINITY).amax(1);
}

// What a pooler reads, [rows, hidden]; only real tokens count.
Tensor pooled_rows(PoolInput kind, const Tensor& rows, const Tensor& real) {
  const auto first = [&] { return rows.select(1, 0); };
  switch (kind) {
    case PoolInput::cls:
      return first();
    case PoolInput::mean:
      return mean_of(rows, real);
    case PoolInput::max:
      return largest_of(rows, real);
    case PoolInput::cls_mean:
      return first() + mean_of(rows, real);
    case PoolInput::cls_max:
      return first() + largest_of(rows, real);
    case PoolInput::mean_max:
      return mean_of(rows, real) + largest_of(rows, real);
  }
  check(false, "a pool input has a formula");
  return rows;
}

// [h_0 ; Σ_t a_t h_t] with a = softmax_t(h_t · query) over real tokens, in fp32 whatever the rows are.
Tensor reader_input(const Tensor& rows, const Tensor& real, const Tensor& query) {
  const compat::Autocast exact(false);
  const Tensor wide = rows.to(torch::kFloat);
  const Tensor scores = torch::matmul(wide, query.to(torch::kFloat)).masked_fill(real.logical_not(), -INFINITY);
  const Tensor read = torch::bmm(torch::softmax(scores, 1).unsqueeze(1), wide).squeeze(1);
  return torch::cat({wide.select(1, 0), read}, 1);
}

}  // namespace

Tensor activated(Activation activation, const Tensor& values) {
  switch (activation) {
    case Activation::gelu:
      return torch::gelu(values);
    case Activation::gelu_new:
      return torch::gelu(values, "tanh");
    case Activation::relu:
      return torch::relu(values);
  }
  check(false, "an activation has a formula");
  return values;
}

NormImpl::NormImpl(const ModelSpec& spec, int64_t size) : epsilon_(spec.norm_eps) {
  weight_ = register_parameter("weight", torch::ones({size}));
  if (spec.norm_biases) bias_ = register_parameter("bias", torch::zeros({size}));
}

Tensor NormImpl::forward(const Tensor& rows) const {
  return torch::layer_norm(rows, weight_.sizes(), weight_, bias_, epsilon_);
}

EmbeddingsImpl::EmbeddingsImpl(const ModelSpec& spec)
    : position_offset_(spec.position_offset), dropout_(spec.hidden_dropout) {
  word_ = register_module("word", torch::nn::Embedding(spec.vocab, spec.embedding));
  if (spec.position_table) {
    position_ = register_module("position", torch::nn::Embedding(spec.positions, spec.embedding));
  }
  if (spec.segments > 0) segment_ = register_module("segment", torch::nn::Embedding(spec.segments, spec.embedding));
  norm_ = register_module("norm", Norm(spec, spec.embedding));
  if (spec.embedding_projection) {
    project_ = register_module("project", torch::nn::Linear(spec.embedding, spec.hidden));
  }
}

Tensor EmbeddingsImpl::forward(const TextBatch& batch) {
  Tensor rows = word_(batch.ids);
  if (segment_) rows = rows + segment_(batch.types);
  if (position_) {
    const Tensor positions = torch::arange(batch.ids.size(1), batch.ids.options().dtype(torch::kLong)).unsqueeze(0);
    rows = rows + position_(positions + position_offset_);
  }
  rows = dropped(norm_(rows), dropout_, is_training());
  return project_ ? project_(rows) : rows;
}

LayerImpl::LayerImpl(const ModelSpec& spec, int index) : spec_(spec) {
  query_ = register_module("query", linear_of(spec.hidden, spec.hidden, spec.biases));
  key_ = register_module("key", linear_of(spec.hidden, spec.hidden, spec.biases));
  value_ = register_module("value", linear_of(spec.hidden, spec.hidden, spec.biases));
  output_ = register_module("output", linear_of(spec.hidden, spec.hidden, spec.biases));
  if (spec.has_attention_norm(index)) attention_norm_ = register_module("attention_norm", Norm(spec, spec.hidden));
  ffn1_ = register_module("ffn1", linear_of(spec.hidden, spec.inner, spec.biases));
  if (spec.gated) gate_ = register_module("gate", linear_of(spec.hidden, spec.inner, spec.biases));
  ffn2_ = register_module("ffn2", linear_of(spec.inner, spec.hidden, spec.biases));
  ffn_norm_ = register_module("ffn_norm", Norm(spec, spec.hidden));
}

// Of all pairs of a query and a key, [rows, heads, tokens, tokens], as tests/reference has it.
Tensor LayerImpl::distance_scores(const Tensor& query, const Tensor& key, const LayerContext& context) {
  const int64_t count = context.distances.size(0), heads = spec_.heads;
  const std::vector<int64_t> pairs{query.size(0), heads, query.size(2), query.size(2)};
  const auto meet = [&](const Tensor& x, torch::nn::Linear& map, const Tensor& at) {
    const Tensor table = map(context.distances).view({count, heads, -1}).permute({1, 2, 0});  // [heads, width, count]
    return torch::matmul(x, table).gather(-1, at.expand(pairs));
  };
  return meet(query, key_, context.distance_rows) + meet(key, query_, context.distance_rows.t()).transpose(-2, -1);
}

Tensor LayerImpl::attended(const Tensor& rows, const LayerContext& context) {
  const int64_t texts = rows.size(0), tokens = rows.size(1), heads = spec_.heads;
  const auto split = [&](const Tensor& values) {
    return values.view({texts, tokens, heads, spec_.hidden / heads}).transpose(1, 2);
  };
  Tensor query = split(query_(rows)), key = split(key_(rows)), mask = context.mask;
  if (context.cosines.defined()) {
    query = query * context.cosines + exchanged(query) * context.sines;
    key = key * context.cosines + exchanged(key) * context.sines;
  }
  if (context.distances.defined()) {
    mask = mask + distance_scores(query, key, context) / std::sqrt(3.0 * spec_.head_width());
    query = query / std::sqrt(3.0);
  }
  const Tensor found = compat::attend({.query = query,
                                       .key = key,
                                       .value = split(value_(rows)),
                                       .mask = mask,
                                       .dropout = is_training() ? spec_.attention_dropout : 0.0});
  const Tensor joined = found.transpose(1, 2).reshape({texts, tokens, spec_.hidden});
  return dropped(output_(joined), spec_.hidden_dropout, is_training());
}

Tensor LayerImpl::fed_forward(const Tensor& rows) {
  Tensor inner = activated(spec_.activation, ffn1_(rows));
  if (gate_) inner = inner * gate_(rows);
  const Tensor out = ffn2_(inner);
  return spec_.ffn_dropout ? dropped(out, spec_.hidden_dropout, is_training()) : out;
}

Tensor LayerImpl::forward(const Tensor& rows, const LayerContext& context) {
  if (spec_.pre_norm) {
    const Tensor attention = rows + attended(attention_norm_ ? attention_norm_(rows) : rows, context);
    return attention + fed_forward(ffn_norm_(attention));
  }
  const Tensor attention = attention_norm_(rows + attended(rows, context));
  return ffn_norm_(attention + fed_forward(attention));
}

HeadsImpl::HeadsImpl(const ModelSpec& spec, const ExitLayout& layout)
    : layout_(layout), dropout_(spec.classifier_dropout) {
  const auto list = [&](const char* name) { return register_module(name, std::make_shared<torch::nn::Module>()); };
  const auto readers = list("reader"), poolers = list("pooler"), classifiers = list("classifier");
  for (int r = 0; r < layout.readers(); ++r) {
    const auto reader = readers->register_module(std::to_string(r), std::make_shared<torch::nn::Module>());
    readers_.push_back(reader->register_parameter("weight", torch::zeros({spec.hidden})));
  }
  for (int p = 0; p < layout.poolers(); ++p) {
    const bool reader = pooler_has_reader(layout, p);
    const int columns = reader ? 2 * spec.hidden : spec.hidden;
    poolers_.push_back(
        poolers->register_module(std::to_string(p), linear_of(columns, layout.width, reader || layout.pooler.bias)));
    pooler_norms_.emplace_back(nullptr);
    if (reader || !layout.pooler.norm) continue;
    pooler_norms_.back() = poolers_.back()->register_module("norm", Norm(spec, layout.width));
  }
  for (int c = 0; c < layout.classifiers(); ++c) {
    const int rows = layout.inner.value_or(layout.outputs);
    classifiers_.push_back(classifiers->register_module(std::to_string(c), torch::nn::Linear(layout.width, rows)));
    if (layout.inner) {
      inner_.push_back(classifiers_.back()->register_module("inner", torch::nn::Linear(rows, layout.outputs)));
    }
  }
  if (layout.lte) lte_ = register_module("lte", torch::nn::Linear(layout.width, 1));
  const auto like_first = [&](const ExitSite& site) {
    return site.pooler && site.reader.has_value() == layout.sites.front().reader.has_value() &&
           (site.reader || layout.pooler == PoolerShape{});
  };
  alike_ =
      layout.sites.size() > 1 && !layout.inner && std::all_of(layout.sites.begin(), layout.sites.end(), like_first);
}

Tensor HeadsImpl::input_of(const ExitSite& site, const Tensor& rows, const Tensor& real) const {
  if (site.reader) return reader_input(rows, real, readers_[static_cast<size_t>(*site.reader)]);
  return pooled_rows(layout_.input, rows, real);
}

HeadsImpl::Output HeadsImpl::forward(const ExitSite& site, const Tensor& input) {
  Tensor pooled = input;
  if (site.pooler) {
    const auto pooler = static_cast<size_t>(*site.pooler);
    const PoolerActivation activation = site.reader ? PoolerActivation::tanh : layout_.pooler.activation;
    pooled = activated(activation, poolers_[pooler](pooled));
    if (pooler_norms_[pooler]) pooled = pooler_norms_[pooler](pooled);
  }
  pooled = dropped(pooled, dropout_, is_training());
  const auto classifier = static_cast<size_t>(site.classifier);
  Output out{.logits = classifiers_[classifier](pooled), .lte = {}, .pooled = pooled};
  if (layout_.inner) out.logits = inner_[classifier](torch::tanh(out.logits));
  out.logits = out.logits.to(torch::kFloat);
  if (lte_) out.lte = torch::sigmoid(lte_(pooled).to(torch::kFloat)).squeeze(-1);
  return out;
}

HeadsImpl::Output HeadsImpl::forward_all(const std::vector<ExitSite>& sites, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> weights, biases, outer_weights, outer_biases;
  for (const ExitSite& site : sites) {
    const torch::nn::Linear& pooler = poolers_[static_cast<size_t>(*site.pooler)];
    const torch::nn::Linear& classifier = classifiers_[static_cast<size_t>(site.classifier)];
    weights.push_back(pooler->weight);
    biases.push_back(pooler->bias);
    outer_weights.push_back(classifier->weight);
    outer_biases.push_back(classifier->bias);
  }
  const auto product = [](const Tensor& x, const std::vector<Tensor>& matrices, const std::vector<Tensor>& offsets) {
    return torch::baddbmm(torch::stack(offsets).unsqueeze(1), x, torch::stack(matrices).transpose(1, 2));
  };
  const Tensor pooled = dropped(torch::tanh(product(torch::stack(inputs), weights, biases)), dropout_, is_training());
  Output out{.logits = product(pooled, outer_weights, outer_biases).to(torch::kFloat), .lte = {}};
  if (lte_) out.lte = torch::sigmoid(lte_(pooled).to(torch::kFloat)).squeeze(-1);
  return out;
}

NetworkImpl::NetworkImpl(ModelSpec spec, ExitLayout layout) : spec_(spec), layout_(std::move(layout)) {
  embeddings_ = register_module("embeddings", Embeddings(spec_));
  if (spec_.relative_buckets > 0) {
    relative_ = register_module("relative", std::make_shared<torch::nn::Module>());
    distances_ =
        relative_->register_parameter("weight", torch::zeros({int64_t{2} * spec_.relative_buckets, spec_.hidden}));
    distance_norm_ = relative_->register_module("norm", Norm(spec_, spec_.hidden));
  }
  const int sets = spec_.groups == 0 ? spec_.layers : spec_.groups;
  const auto list = register_module(spec_.groups == 0 ? "layer" : "group", std::make_shared<torch::nn::Module>());
  for (int i = 0; i < sets; ++i) layers_.push_back(list->register_module(std::to_string(i), Layer(spec_, i)));
  if (spec_.pre_norm) final_norm_ = register_module("final_norm", Norm(spec_, spec_.hidden));
  if (!layout_.sites.empty()) heads_ = register_module("exits", Heads(spec_, layout_));
}

Layer& NetworkImpl::layer(int index) {
  return layers_[static_cast<size_t>(spec_.weights_of(index))];
}

namespace {

Tensor mask_of(const TextBatch& batch) {
  return torch::zeros_like(batch.real, torch::kFloat)
      .masked_fill(batch.real.logical_not(), kMasked)
      .unsqueeze(1)
      .unsqueeze(1);
}

ExitSite ramp_site(const ExitLayout& layout) {
  return {.after = layout.sites.back().after,
          .pooler = layout.last_ramp->pooler,
          .classifier = layout.last_ramp->classifier};
}

}  // namespace

void NetworkImpl::make_tables(const torch::Device& device) {
  const Tensor& made = spec_.rotary_base > 0 ? tables_.everywhere.cosines : tables_.everywhere.distance_rows;
  if (made.defined() && made.device() == device) return;
  const int positions = spec_.max_tokens();
  if (spec_.relative_buckets > 0) {
    const DistanceBuckets buckets(spec_);
    std::vector<int64_t> rows;
    for (int d = 1 - positions; d < positions; ++d) rows.push_back(buckets.row(d));
    tables_.everywhere.distance_rows = torch::tensor(rows, torch::kLong).to(device);
  }
  const auto turn = [&](float base, LayerContext& context) {
    const Rotation rotation(base, spec_.head_width(), positions);
    const int64_t pairs = rotation.pairs();
    const auto table = [&](const float* (Rotation::*row)(int) const) {
      const Tensor half = torch::empty({positions, pairs}, torch::kFloat);
      for (int t = 0; t < positions; ++t) std::copy_n((rotation.*row)(t), pairs, half.data_ptr<float>() + t * pairs);
      return torch::cat({half, half}, 1).to(device);
    };
    context.cosines = table(&Rotation::cosines);
    context.sines = table(&Rotation::sines);
  };
  if (spec_.rotary_base > 0) {
    turn(spec_.rotary_base, tables_.everywhere);
    turn(spec_.local_rotary_base, tables_.local);
  }
}

NetworkImpl::Contexts NetworkImpl::contexts_of(const TextBatch& batch) {
  const int64_t tokens = batch.ids.size(1);
  if (spec_.rotary_base > 0 || spec_.relative_buckets > 0) make_tables(batch.ids.device());
  Contexts out;
  out.everywhere.mask = mask_of(batch);
  const Tensor places = torch::arange(tokens, batch.ids.options().dtype(torch::kLong));
  const Tensor distances = places.unsqueeze(1) - places.unsqueeze(0);
  if (spec_.relative_buckets > 0) {
    const Tensor at = (distances + (spec_.max_tokens() - 1)).reshape({-1});
    out.everywhere.distance_rows = tables_.everywhere.distance_rows.index_select(0, at).view({tokens, tokens});
    out.everywhere.distances = distance_norm_(distances_);
  }
  out.local = out.everywhere;
  if (spec_.window > 0) {
    const Tensor beyond = (distances.abs() > spec_.window).to(torch::kFloat) * kMasked;
    out.local.mask = out.everywhere.mask + beyond;
  }
  if (spec_.rotary_base <= 0) return out;
  for (const auto& [all, context] : {std::pair{&tables_.everywhere, &out.everywhere}, {&tables_.local, &out.local}}) {
    context->cosines = all->cosines.narrow(0, 0, tokens);
    context->sines = all->sines.narrow(0, 0, tokens);
  }
  return out;
}

void NetworkImpl::run_layers(const TextBatch& batch, int layers, bool equilibrium, const ReadRows& read) {
  const Contexts contexts = contexts_of(batch);
  Tensor rows = embeddings_(batch);
  read(0, rows);
  for (int i = 1; i <= layers; ++i) {
    rows = layer(i - 1)(rows, spec_.is_local(i - 1) ? contexts.local : contexts.everywhere);
    if (equilibrium) rows = scale_gradient(rows, 1.0 / (spec_.layers - i + 1));
    read(i, rows);
    if (equilibrium && i < layers) rows = scale_gradient(rows, spec_.layers - i);
  }
}

// What each exit reads, in fp32, undefined where it was not asked for. Behind the last exit's stands the ramp's, if
// there is one.
std::vector<Tensor> NetworkImpl::exit_inputs(const TextBatch& batch, const ForwardOptions& options) {
  std::vector<Tensor> inputs(layout_.sites.size() + 1);
  const int last = options.only ? layout_.sites.at(static_cast<size_t>(*options.only)).after : spec_.layers;
  const auto input_of = [&](const ExitSite& site, const Tensor& rows) {
    return heads_->input_of(site, as_read(rows), batch.real).to(torch::kFloat);
  };
  size_t next = 0;  // exit
  run_layers(batch, last, options.equilibrium && is_training(), [&](int layer, const Tensor& rows) {
    if (next < layout_.sites.size() && layout_.sites[next].after == layer) {
      const bool wanted = !options.only || *options.only == static_cast<int>(next);
      if (wanted) inputs[next] = input_of(layout_.sites[next], rows);
      ++next;
    }
    if (layer == spec_.layers && layout_.last_ramp && !options.only) inputs.back() = input_of(ramp_site(layout_), rows);
  });
  return inputs;
}

ExitOutputs NetworkImpl::forward(const TextBatch& batch, const ForwardOptions& options) {
  check(!layout_.sites.empty(), "a network without exits has no outputs");
  const size_t exits = layout_.sites.size();
  if (options.frozen) {
    embeddings_->eval();
    for (Layer& layer : layers_) layer->eval();
  }
  const std::vector<Tensor> inputs = exit_inputs(batch, options);
  const compat::Autocast exact(false);  // heads are small, and their logits need more than bf16's eight bits
  ExitOutputs out;
  out.logits.resize(exits);
  if (layout_.lte) out.lte.resize(exits);
  if (options.together && heads_->alike() && !options.only && !options.frozen) {
    const HeadsImpl::Output all = heads_->forward_all(layout_.sites, {inputs.begin(), inputs.end() - 1});
    out.stacked = all.logits;
    out.logits = all.logits.unbind(0);
    if (layout_.lte) out.lte = all.lte.unbind(0);
  } else {
    for (size_t i = 0; i < exits; ++i) {
      if (!inputs[i].defined()) continue;
      heads_->train(is_training() && !(options.frozen && i + 1 == exits));  // the last exit teaches as it answers
      HeadsImpl::Output exit = heads_(layout_.sites[i], inputs[i]);
      out.logits[i] = std::move(exit.logits);
      if (options.pooled) out.pooled.push_back(exit.pooled);
      if (layout_.lte) out.lte[i] = std::move(exit.lte);
    }
  }
  if (inputs.back().defined()) out.ramp = heads_(ramp_site(layout_), inputs.back()).logits;
  return out;
}

std::vector<std::string> load_parameters(NetworkImpl& network, const Checkpoint& checkpoint) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> missing;
  for (auto& item : network.named_parameters()) {
    const TensorView* view = checkpoint.find(item.key());
    Tensor& parameter = item.value();
    if (view == nullptr || view->shape != parameter.sizes().vec()) {
      missing.push_back(item.key());
      continue;
    }
    const Tensor staged = torch::empty(parameter.sizes(), torch::kFloat);
    copy_to_float(*view, {staged.data_ptr<float>(), static_cast<size_t>(staged.numel())});
    parameter.copy_(staged);
  }
  return missing;
}

Checkpoint to_checkpoint(const NetworkImpl& network, Origin origin) {
  const torch::NoGradGuard no_grad;
  TensorSet set;
  for (const auto& item : network.named_parameters()) {
    const auto copy =
        std::make_shared<const Tensor>(item.value().detach().to(torch::kCPU, torch::kFloat).contiguous().clone());
    const std::span values(copy->data_ptr<float>(), static_cast<size_t>(copy->numel()));
    set.tensors[item.key()] = {
        .dtype = DType::f32, .shape = copy->sizes().vec(), .strides = {}, .bytes = std::as_bytes(values)};
    set.owners.push_back(copy);
  }
  return {network.spec(), network.layout(), std::move(set), std::move(origin)};
}

}  // namespace exeunt::nn
