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

// ⟨a, b⟩ over all tensors, in double.
double dot(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() && b[i].defined())
      sum += (a[i].to(torch::kDouble) * b[i].to(torch::kDouble)).sum().item<double>();
  }
  return sum;
}

}  // namespace

Tensor scale_gradient(const Tensor& values, double factor) {
  return factor == 1.0 ? values : ScaleGradient::apply(values, factor);
}

ProjectionReport project_secondary(const std::vector<Tensor>& anchor, std::vector<Tensor>& secondary) {
  check(anchor.size() == secondary.size(), "projection: as many anchors as secondaries");
  const torch::NoGradGuard no_grad;
  const double across = dot(secondary, anchor), length = dot(anchor, anchor), other = dot(secondary, secondary);
  ProjectionReport report{.angle = 0, .anchor_norm = std::sqrt(length), .secondary_norm = std::sqrt(other)};
  if (length > 0 && other > 0) {
    const double cosine = std::clamp(across / (report.anchor_norm * report.secondary_norm), -1.0, 1.0);
    report.angle = std::acos(cosine) * 180.0 / std::numbers::pi;
  }
  if (length <= 0 || across >= 0) return report;
  const double rho = across / length;
  for (size_t i = 0; i < anchor.size(); ++i) {
    if (!anchor[i].defined()) continue;
    secondary[i] = secondary[i].defined() ? secondary[i] - anchor[i] * rho : anchor[i] * -rho;
  }
  return report;
}

}  // namespace exeunt::nn
