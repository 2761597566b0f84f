// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/fused_layer.h"

#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A layer's parameters in the order it registers them.
enum Place {
  kQuery,
  kQueryBias,
  kKey,
  kKeyBias,
  kValue,
  kValueBias,
  kOutput,
  kOutputBias,
  kNorm1,
  kNorm1Bias,
  kFfn1,
  kFfn1Bias,
  kFfn2,
  kFfn2Bias,
  kNorm2,
  kNorm2Bias,
  kPlaces
};

Tensor activation_of(Activation activation, const Tensor& values) {
  if (activation == Activation::relu) return torch::relu(values);
  return torch::gelu(values, activation == Activation::gelu ? "none" : "tanh");
}

}  // namespace

// Matrices and their biases in the precision of the rows; query, key and value one below the other.
struct FusedTrunk::Weights {
  Tensor qkv, qkv_bias, output, output_bias, ffn1, ffn1_bias, ffn2, ffn2_bias;
};

struct FusedTrunk::Plan : torch::CustomClassHolder {
  ModelSpec spec;
  TrunkBatch batch;
  compat::AttentionBounds bounds;
  std::vector<Weights> weights;

  [[nodiscard]] DropoutAt dropout(int layer, bool behind_ffn) const {
    const bool off = !batch.training || (behind_ffn && !spec.ffn_dropout);
    return {.rate = off ? 0.0 : spec.hidden_dropout, .seed = batch.seed, .site = 2 * layer + (behind_ffn ? 1 : 0)};
  }
};

namespace {

using Plan = FusedTrunk::Plan;

struct LayerFunction : torch::autograd::Function<LayerFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& rows, at::TensorList parameters,
                        const c10::intrusive_ptr<Plan>& plan, int64_t index) {
    const ModelSpec& spec = plan->spec;
    const FusedTrunk::Weights& w = plan->weights[static_cast<size_t>(index)];
    const int64_t texts = rows.size(0), tokens = rows.size(1), hidden = spec.hidden, heads = spec.heads;
    const Tensor x = rows.reshape({texts * tokens, hidden});
    const Tensor qkv = torch::addmm(w.qkv_bias, x, w.qkv.t()).view({texts, tokens, 3, heads, hidden / heads});
    const compat::AttentionTape attention =
        compat::attend_forward(qkv, plan->bounds, plan->batch.training ? spec.attention_dropout : 0.0);
    const Tensor joined = attention.out.reshape({texts * tokens, hidden});
    const AddNormTape first = add_norm({.residual = x,
                                        .x = torch::addmm(w.output_bias, joined, w.output.t()),
                                        .weight = parameters[kNorm1],
                                        .bias = parameters[kNorm1Bias],
                                        .epsilon = spec.norm_eps,
                                        .dropout = plan->dropout(static_cast<int>(index), false)});
    const Tensor wide = torch::addmm(w.ffn1_bias, first.out, w.ffn1.t());
    const Tensor active = activation_of(spec.activation, wide);
    const AddNormTape second = add_norm({.residual = first.out,
                                         .x = torch::addmm(w.ffn2_bias, active, w.ffn2.t()),
                                         .weight = parameters[kNorm2],
                                         .bias = parameters[kNorm2Bias],
                                         .epsilon = spec.norm_eps,
                                         .dropout = plan->dropout(static_cast<int>(index), true)});
    context->save_for_backward({x, qkv, attention.out, attention.sums, attention.seed, attention.offset, first.out,
                                first.sum, first.mean, first.scale, wide, active, second.sum, second.mean, second.scale,
                                parameters[kNorm1], parameters[kNorm2]});
    context->saved_data["plan"] = c10::IValue::make_capsule(plan);
    context->saved_data["index"] = index;
    return second.out.view({texts, tokens, hidden});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["plan"].toCapsule();
    const Plan& plan = *static_cast<const Plan*>(capsule.get());
    const auto index = static_cast<int>(context->saved_data["index"].toInt());
    const FusedTrunk::Weights& w = plan.weights[static_cast<size_t>(index)];
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &qkv = saved[1], &joined = saved[2], &middle = saved[6], &wide = saved[10],
                 &active = saved[11];
    const AddNormTape first{middle, saved[7], saved[8], saved[9]}, second{{}, saved[12], saved[13], saved[14]};
    const int64_t hidden = plan.spec.hidden;
    variable_list out(1 + kPlaces + 2);
    Tensor* grad = out.data() + 1;

    const Tensor top = gradients[0].reshape({-1, hidden}).to(x.scalar_type()).contiguous();
    const AddNormGradients norm2 = add_norm_back(top, second, saved[16], plan.dropout(index, true));
    grad[kNorm2] = norm2.weight;
    grad[kNorm2Bias] = norm2.bias;
    grad[kFfn2Bias] = norm2.x_sum;
    grad[kFfn2] = compat::product_fp32(norm2.x.t(), active);
    Tensor inner = torch::mm(norm2.x, w.ffn2);
    grad[kFfn1Bias] = activation_back(inner, wide, plan.spec.activation);
    grad[kFfn1] = compat::product_fp32(inner.t(), middle);
    const Tensor between = torch::addmm(norm2.residual, inner, w.ffn1);

    const AddNormGradients norm1 = add_norm_back(between, first, saved[15], plan.dropout(index, false));
    grad[kNorm1] = norm1.weight;
    grad[kNorm1Bias] = norm1.bias;
    grad[kOutputBias] = norm1.x_sum;
    grad[kOutput] = compat::product_fp32(norm1.x.t(), joined.reshape({-1, hidden}));
    const Tensor context_back = torch::mm(norm1.x, w.output).view(joined.sizes());
    const Tensor parts = compat::attend_backward(context_back, qkv, plan.bounds,
                                                 {.out = joined,
                                                  .sums = saved[3],
                                                  .seed = saved[4],
                                                  .offset = saved[5],
                                                  .dropout = plan.batch.training ? plan.spec.attention_dropout : 0.0})
                             .view({-1, 3 * hidden});
    const Tensor sums = column_sums(parts), product = compat::product_fp32(parts.t(), x);
    for (int64_t i = 0; i < 3; ++i) {
      grad[kQuery + 2 * i] = product.narrow(0, i * hidden, hidden);
      grad[kQueryBias + 2 * i] = sums.narrow(0, i * hidden, hidden);
    }
    // Equilibrium: what goes down is the plain sum over exits; a layer's own gradients are its mean over the exits
    // above it. With G_i = S_i / (L−i+1) the rule G_i = (g_i + (L−i) G_{i+1}) / (L−i+1) reads S_i = g_i + S_{i+1}.
    if (plan.batch.equilibrium) {
      at::_foreach_mul_(at::TensorList(grad, kPlaces), 1.0 / (plan.spec.layers - index));
    }
    out[0] = torch::addmm(norm1.residual, parts, w.qkv).view(gradients[0].sizes());
    return out;
  }
};

struct TapFunction : torch::autograd::Function<TapFunction> {
  // `query`: a reader's, or nothing.
  static variable_list forward(AutogradContext* context, const Tensor& rows, const Tensor& real, at::TensorList query) {
    const Tensor same = rows.view_as(rows);
    if (query.empty()) {
      context->save_for_backward({rows});
      return {same, rows.select(1, 0).to(torch::kFloat)};
    }
    const ReaderTape tape = read_texts(rows, real, query[0]);
    context->save_for_backward({rows, query[0], tape.shares});
    return {same, tape.out};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    // The gradient of the rows was made by the layer above for this one place, so it may be added to.
    Tensor back = gradients[0];
    if (saved.size() == 1) {
      back.select(1, 0).add_(gradients[1]);
      return {back, Tensor()};
    }
    const Tensor query =
        read_texts_back(gradients[1].contiguous(), {.rows = saved[0], .query = saved[1], .shares = saved[2]}, back);
    return {back, Tensor(), query};
  }
};

struct PlacesFunction : torch::autograd::Function<PlacesFunction> {
  static variable_list forward(AutogradContext* context, const Tensor& rows, const Tensor& places) {
    context->save_for_backward({places});
    return {rows.view_as(rows), rows.reshape({-1, rows.size(-1)}).index_select(0, places)};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    // Made by the layer above for this one place, so it may be added to. Places that stand for nothing repeat the first
    // and bring zeros.
    Tensor back = gradients[0].contiguous();
    back.view({-1, back.size(-1)})
        .index_add_(0, context->get_saved_variables()[0], gradients[1].to(back.scalar_type()));
    return {back, Tensor()};
  }
};

}  // namespace

FusedTrunk::FusedTrunk(const ModelSpec& spec, std::vector<std::vector<Tensor>> layers)
    : spec_(spec), layers_(std::move(layers)) {
  const torch::NoGradGuard no_grad;
  const Tensor& any = layers_.front().front();
  precision_ = any.is_cuda() ? torch::kBFloat16 : torch::kFloat;
  const int64_t hidden = spec.hidden;
  const auto room = [&](at::IntArrayRef sides) { return torch::zeros(sides, any.options().dtype(precision_)); };
  std::vector<gpu::ListEntry> entries;
  std::vector<Tensor> rounded;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::vector<Tensor>& from = layers_[i];
    check(from.size() == kPlaces, "a layer has sixteen parameters");
    size_t twin = 0;
    while (!from[kQuery].is_same(layers_[twin][kQuery])) ++twin;
    if (twin < i) {  // copied: push_back of an element of the same vector may move it
      const Weights shared = weights_[twin];
      weights_.push_back(shared);
      continue;
    }
    Weights w{.qkv = room({3 * hidden, hidden}),
              .qkv_bias = room({3 * hidden}),
              .output = room({hidden, hidden}),
              .output_bias = room({hidden}),
              .ffn1 = room({spec.inner, hidden}),
              .ffn1_bias = room({spec.inner}),
              .ffn2 = room({hidden, spec.inner}),
              .ffn2_bias = room({hidden})};
    const auto link = [&](Place place, const Tensor& to) {
      entries.push_back({.parameter = from[place].detach(), .copy = to});
      rounded.push_back(to);
    };
    for (int64_t part = 0; part < 3; ++part) {
      link(static_cast<Place>(kQuery + 2 * part), w.qkv.narrow(0, part * hidden, hidden));
      link(static_cast<Place>(kQueryBias + 2 * part), w.qkv_bias.narrow(0, part * hidden, hidden));
    }
    link(kOutput, w.output);
    link(kOutputBias, w.output_bias);
    link(kFfn1, w.ffn1);
    link(kFfn1Bias, w.ffn1_bias);
    link(kFfn2, w.ffn2);
    link(kFfn2Bias, w.ffn2_bias);
    weights_.push_back(w);
  }
  if (any.is_cuda()) {
    rounding_ = std::make_unique<gpu::TensorWalk>(rounded);
    rounding_->set(entries);
    rounding_->upload();
  } else {
    copies_ = std::move(entries);
  }
}

FusedTrunk::~FusedTrunk() = default;

void FusedTrunk::begin(const TrunkBatch& batch) {
  const torch::NoGradGuard no_grad;
  if (rounding_) rounding_->round_copies();
  for (gpu::ListEntry& entry : copies_) entry.copy.copy_(entry.parameter);
  auto plan = c10::make_intrusive<Plan>();
  plan->spec = spec_;
  plan->batch = batch;
  plan->bounds = {.cuts = batch.cuts, .longest = batch.longest};
  if (batch.mask.defined()) plan->bounds.mask = compat::attention_mask(batch.mask.to(precision_), spec_.heads);
  plan->weights = weights_;
  plan_ = plan;
}

Tensor FusedTrunk::layer(const Tensor& rows, int index) const {
  return LayerFunction::apply(rows, at::TensorList(layers_[static_cast<size_t>(index)]),
                              c10::static_intrusive_pointer_cast<Plan>(plan_), static_cast<int64_t>(index));
}

Tapped tap_places(const Tensor& rows, const Tensor& places) {
  const variable_list out = PlacesFunction::apply(rows, places);
  return {out[0], out[1]};
}

Tapped tap(const Tensor& rows, const Tensor& real, const std::optional<Tensor>& query) {
  std::vector<Tensor> queries;  // a list of none or one: LibTorch's versions differ in their optionals
  if (query) queries.push_back(*query);
  const variable_list out = TapFunction::apply(rows, real, at::TensorList(queries));
  return {out[0], out[1]};
}

}  // namespace exeunt::nn
