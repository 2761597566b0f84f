// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/gradient.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "exeunt/base/error.h"

namespace exeunt::nn {
namespace {

using torch::Tensor;

struct ScaleGradient : torch::autograd::Function<ScaleGradient> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& values, double factor) {
    context->saved_data["factor"] = factor;
    return values.view_as(values);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->saved_data["factor"].toDouble(), Tensor()};
  }
};

// ⟨a, b⟩, added up in double.
Tensor inner_product(const Tensor& a, const Tensor& b) {
  return (a * b).sum(torch::kDouble);
}

}  // namespace

Tensor scale_gradient(const Tensor& values, double factor) {
  return factor == 1.0 ? values : ScaleGradient::apply(values, factor);
}

// All tensors go through as one, and nothing waits for the result: on a GPU that is a handful of launches.
Tensor project_secondary(const std::vector<Tensor>& anchor, std::vector<Tensor>& secondary) {
  check(anchor.size() == secondary.size(), "projection: as many anchors as secondaries");
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> anchors, others;
  for (size_t i = 0; i < anchor.size(); ++i) {
    if (!anchor[i].defined() && !secondary[i].defined()) continue;
    anchors.push_back((anchor[i].defined() ? anchor[i] : torch::zeros_like(secondary[i])).reshape({-1}));
    others.push_back((secondary[i].defined() ? secondary[i] : torch::zeros_like(anchor[i])).reshape({-1}));
  }
  if (anchors.empty()) return torch::zeros({3}, torch::kDouble);
  const Tensor a = torch::cat(anchors), b = torch::cat(others);
  const Tensor across = inner_product(b, a), length = inner_product(a, a), other = inner_product(b, b);
  const Tensor rho = torch::where(length > 0, (across / length).clamp_max(0), torch::zeros_like(across));
  const Tensor left = b - a * rho;
  int64_t at = 0;
  for (size_t i = 0; i < anchor.size(); ++i) {
    if (!anchor[i].defined() && !secondary[i].defined()) continue;
    const auto sides = (anchor[i].defined() ? anchor[i] : secondary[i]).sizes();
    const int64_t count = c10::multiply_integers(sides);
    secondary[i] = left.narrow(0, at, count).view(sides);
    at += count;
  }
  return torch::stack({across, length, other});
}

ProjectionReport projection_report(double across, double anchor, double secondary) {
  ProjectionReport report{.angle = 0, .anchor_norm = std::sqrt(anchor), .secondary_norm = std::sqrt(secondary)};
  if (anchor > 0 && secondary > 0) {
    const double cosine = std::clamp(across / (report.anchor_norm * report.secondary_norm), -1.0, 1.0);
    report.angle = std::acos(cosine) * 180.0 / std::numbers::pi;
  }
  return report;
}

double clip_gradients(const std::vector<Tensor>& gradients, double most) {
  if (gradients.empty()) return 0;
  const torch::NoGradGuard no_grad;
  const double norm = torch::stack(at::_foreach_norm(gradients)).norm().item<double>();
  const double factor = most / (norm + 1e-6);
  if (most > 0 && factor < 1) at::_foreach_mul_(gradients, factor);
  return norm;
}

}  // namespace exeunt::nn
